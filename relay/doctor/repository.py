"""Checks of the repository that one stands in: git's view of it, `.relay/`, relay.toml and its trust."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import trio

from relay.core.config import Config
from relay.doctor.check import Check, error, ok, skipped, warning
from relay.doctor.state import private
from relay.effects.repository import inspect
from relay.errors import NoRepositoryError, NotTrustedError, RelayError
from relay.providers.table import provider_names
from relay.store.config_file import load_effective
from relay.store.places import RepoPlaces, StatePlaces
from relay.store.trust import TrustStore, require


def repository(cwd: Path) -> Iterator[Check]:
    """The repository can be worked in."""
    try:
        found = trio.run(inspect, cwd)
    except NoRepositoryError as failure:
        yield skipped("repository", failure.message)
        return
    told = f"{found.root}, on {found.branch or 'no branch'}, {found.dirty_count} not committed"
    if found.busy:
        yield warning(
            "repository", f"{told}; a {found.busy} is under way", f"finish or abort the {found.busy}"
        )
    else:
        yield ok("repository", told)
    for note in found.notes:
        yield warning("repository", note, "nothing; Relay's own calls of git leave it out")


def relay_folder(root: Path) -> Iterator[Check]:
    """`.relay/` is a folder of ours, for us alone."""
    folder = RepoPlaces(root=root).folder
    try:
        mode = folder.lstat().st_mode
    except FileNotFoundError:
        yield skipped(".relay", "is not there yet; `relay init` makes it")
        return
    if not stat.S_ISDIR(mode):
        yield error(".relay", f"{folder} is a link or a file", "move it away; Relay makes a folder there")
        return
    check = private(".relay", folder)
    if check.status == "ok" and not os.access(folder, os.W_OK):
        yield error(".relay", f"{folder} can't be written to", f"chmod u+w {folder}")
    else:
        yield check


def configuration(places: StatePlaces, root: Path | None, config_dir: Path) -> tuple[Config, list[Check]]:
    """The settings in force, and what is to be said of them.

    What a repository says that is not trusted is not in force: `command` would be run.

    Args:
        root: top of the repository; None outside of one.

    Returns:
        The defaults where they can't be read.
    """
    name = "relay.toml"
    try:
        effective = load_effective(root, config_dir, known=provider_names())
    except RelayError as failure:
        told = error(name, failure.message, failure.hint or "mend the line it names")
        return _own(config_dir), [told]
    own = effective.loaded_user.config
    if root is None:
        return own, [ok(name, f"your own, in {config_dir}")]
    try:
        require(effective, root, TrustStore(places.trust))
    except NotTrustedError as failure:
        first, _, rest = failure.message.partition("\n")
        return own, [warning(name, first, failure.hint or "relay trust", detail=rest)]
    except RelayError as failure:
        return own, [error(name, failure.message, failure.hint or "see the file that it names")]
    return effective.config, [ok(name, "read, and nothing in it needs more trust")]


def _own(config_dir: Path) -> Config:
    """The user's own settings, for when the repository's can't be read; the defaults when neither can."""
    try:
        return load_effective(None, config_dir, known=provider_names()).config
    except RelayError:
        return Config()
