"""What `relay init` writes: a relay.toml that shows every key, and a small golden suite.

The file is made from the table of keys, so that it cannot be out of date. Every setting in it is a comment
without a space behind the "#"; with those taken away it says the defaults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relay.core.config_keys import ACCOUNT, SECTIONS, Key, Section
from relay.core.config_parse import dotted
from relay.store.atomic import create
from relay.store.places import RepoPlaces, private_folder

_HEAD = """\
# Relay's configuration of this repository. It may be shared: .gitignore lets it through.
# Every setting is shown with its default. Take the "#" away to change one, its section's line as well.
# Your own settings for every repository go into relay.toml in Relay's configuration folder.
# A file that says what runs (verify, commands, environments, ...) works once `relay trust` has seen it.
"""

_TASKS = {
    "version": 1,
    "routing": [
        {"name": "documentation", "task": "Document the configuration keys in the README", "kind": "docs"},
        {"name": "a word within a word", "task": "State the goal of each module", "kind": "docs"},
        {
            "name": "a failing test",
            "task": "Find out why the parser's tests fail and mend it",
            "kind": "bugfix",
        },
    ],
}


def starter_toml() -> str:
    """The text of the relay.toml that `write_starter` writes."""
    return "\n".join([_HEAD, *(_section(section) for section in SECTIONS)])


def write_starter(root: Path) -> list[Path]:
    """Write what a repository begins with, leaving alone whatever is there.

    Args:
        root: the repository's top folder.

    Returns:
        The files that were made, in the order they were made.

    Raises:
        StoreError, DiskFullError: one of them, or a folder, is a link or another user's, or cannot be made.
    """
    places = RepoPlaces(root=root)
    tasks = places.folder / "eval" / "tasks.json"
    for path in (places.config, places.gitignore, tasks):
        places.check(path)
    ignored = places.gitignore.exists()
    places.ensure()
    private_folder(tasks.parent)
    made = [] if ignored else [places.gitignore]
    if create(places.config, starter_toml().encode(), 0o644):
        made.append(places.config)
    if create(tasks, json.dumps(_TASKS, indent=2).encode() + b"\n", 0o644):
        made.append(tasks)
    return made


def _section(section: Section) -> str:
    path = section.path
    if section is ACCOUNT:
        path = (path[0], _provider_example(), path[1])
    if section.name_check is not None:
        path = (*path, section.name_example)
    lines = [f"# {section.about}", f"#[{dotted(path)}]"]
    for key in section.keys:
        lines += [f"# {key.about}", f"#{key.name} = {_toml(_shown_value(section, key))}"]
    return "\n".join(lines) + "\n"


def _provider_example() -> str:
    return next(s.name_example for s in SECTIONS if s.path == ("providers",))


def _shown_value(section: Section, key: Key) -> Any:
    return section.default(key) if key.example is None else key.example


def _toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case int() | float():
            return f"{value:.15g}"
        case tuple() | list():
            return f"[{', '.join(_toml(item) for item in value)}]"
        case Mapping():
            return "{}"
    raise TypeError(f"no TOML for {value!r:.40}")
