"""The cases of a golden suite, read from JSON, with errors that name the file, the case and the field.

Routing: `{"version": 1, "routing": [{"name", "task", "kind"?, "profiles"?, "profile"?}]}`. Fidelity, a file
each: `{"name", "stores"?, "without"?, "steps" | "recording", "expect": {...}}`; see docs/evaluation.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from relay.core.config import ProfileSettings
from relay.core.contract import NOTED
from relay.core.fidelity import Expected
from relay.core.strict_json import load_object
from relay.errors import ConfigError, RelayError
from relay.evaluation.scripts import Step, steps_of
from relay.evaluation.writers import WRITERS
from relay.store.atomic import read

GOLDEN = Path(__file__).parent / "golden"
"""The suite that comes with Relay."""
_MOST_BYTES = 4 * 1024 * 1024
_VERSION = 1
_EXPECTATIONS = {
    "goal",
    "openTasks",
    "doneTasks",
    "files",
    "constraints",
    "noted",
    "decisions",
    "failedAttempts",
    "nextAction",
}


@frozen(kw_only=True)
class RoutingCase:
    """A task, and the sort it is of, or the profile that is meant for it; None: not asked."""

    name: str
    task: str
    kind: str | None
    profiles: tuple[ProfileSettings, ...] = ()
    profile: str | None = None


@frozen(kw_only=True)
class FidelityCase:
    """A session, and what its continuation must carry.

    Args:
        store: which CLI's.
        steps: writes it, or () for a recording.
        recording: the folder of a recorded home, or None.
    """

    name: str
    store: str
    steps: tuple[Step, ...]
    recording: Path | None
    expected: Expected


def routing_cases(path: Path) -> list[RoutingCase]:
    """The routing cases of a file.

    Raises:
        ConfigError: it cannot be read, or a case is not in order.
    """
    told = _object(path)
    cases = []
    for index, entry in enumerate(_list(told, "routing", str(path))):
        where = f"{path}, case {index + 1}"
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{where}: must be an object")
        name = _text(entry, "name", where) or f"case {index + 1}"
        if "kind" not in entry and "profile" not in entry:
            raise ConfigError(f"{where} ({name}): says neither the kind nor the profile that is expected")
        cases.append(
            RoutingCase(
                name=name,
                task=_text(entry, "task", where, needed=True),
                kind=_text(entry, "kind", where) if "kind" in entry else None,
                profiles=tuple(_profile(one, where) for one in _list(entry, "profiles", where)),
                profile=_text(entry, "profile", where) if "profile" in entry else None,
            )
        )
    return cases


def fidelity_cases(path: Path) -> Iterator[FidelityCase]:
    """The cases of a file: one for each store that it names; all of them where it names none.

    Raises:
        ConfigError: it cannot be read, or is not in order.
    """
    told, where = _object(path), str(path)
    name = _text(told, "name", where) or path.stem
    expected = _expected(told.get("expect"), where)
    stores, without = _texts(told, "stores", where) or tuple(WRITERS), _without(told, where)
    if unknown := sorted({*stores, *without} - set(WRITERS)):
        raise ConfigError(f"{where}: no store {unknown[0]!r}", hint=f"known: {', '.join(WRITERS)}")
    recording = _text(told, "recording", where)
    if bool(recording) == ("steps" in told):
        raise ConfigError(f"{where}: give either steps or a recording")
    if recording and len(stores) != 1:
        raise ConfigError(f"{where}: a recording is of one store; name it in stores")
    folder = None
    if recording:
        folder = path.parent.parent / "recordings" / recording
        if ".." in Path(recording).parts or not folder.is_dir():
            raise ConfigError(f"{where}: no recording {recording!r} in {folder.parent.parent}")
    steps = () if recording else tuple(steps_of(told["steps"], where))
    for store in (each for each in stores if each not in without):
        yield FidelityCase(name=name, store=store, steps=steps, recording=folder, expected=expected)


def files_of(path: Path) -> tuple[list[Path], list[Path]]:
    """The files of a suite: those with routing cases, and those with a fidelity case.

    Args:
        path: a file of routing cases, or a folder with `routing.json`, `tasks.json` and `fidelity/*.json`.

    Raises:
        ConfigError: there is nothing.
    """
    if path.is_file():
        return [path], []
    routing = [path / name for name in ("routing.json", "tasks.json") if (path / name).is_file()]
    fidelity = sorted((path / "fidelity").glob("*.json"))
    if not routing and not fidelity:
        raise ConfigError(
            f"{path} has no cases",
            hint="a file of routing cases, or a folder with tasks.json or fidelity/*.json",
        )
    return routing, fidelity


def _expected(told: object, where: str) -> Expected:
    where = f"{where}, expect"
    if not isinstance(told, Mapping):
        raise ConfigError(f"{where}: must be an object")
    if unknown := sorted(set(told) - _EXPECTATIONS):
        raise ConfigError(f"{where}: no {unknown[0]!r}", hint=f"known: {', '.join(sorted(_EXPECTATIONS))}")
    noted = tuple(text + NOTED for text in _texts(told, "noted", where))
    return Expected(
        goal=_text(told, "goal", where, needed=True),
        open_tasks=_texts(told, "openTasks", where),
        done_tasks=_texts(told, "doneTasks", where),
        files=_texts(told, "files", where),
        constraints=_texts(told, "constraints", where) + noted,
        decisions=_texts(told, "decisions", where),
        failed_attempts=_texts(told, "failedAttempts", where),
        next_action=_text(told, "nextAction", where),
    )


def _without(told: Mapping[str, Any], where: str) -> Mapping[str, str]:
    """Stores that a case cannot be written for, each with the reason."""
    named = told.get("without", {})
    if not isinstance(named, Mapping) or not all(isinstance(why, str) and why for why in named.values()):
        raise ConfigError(f"{where}: without must say of each store why")
    return named


def _profile(told: object, where: str) -> ProfileSettings:
    if not isinstance(told, Mapping):
        raise ConfigError(f"{where}: a profile must be an object")
    return ProfileSettings(
        name=_text(told, "name", where, needed=True),
        kinds=_texts(told, "kinds", where),
        chain=_texts(told, "chain", where),
    )


def _object(path: Path) -> Mapping[str, Any]:
    try:
        data = read(path, limit=_MOST_BYTES)
        told = load_object(data or b"{}")
    except RelayError as error:
        raise ConfigError(f"{path}: {error.message}") from error
    except ValueError as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if data is None:
        raise ConfigError(f"no file {path}")
    if told.get("version", _VERSION) != _VERSION:
        raise ConfigError(
            f"{path}: version {told['version']!r:.20} is not known; this Relay reads {_VERSION}"
        )
    return told


def _text(entry: Mapping[str, Any], key: str, where: str, *, needed: bool = False) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise ConfigError(f"{where}: {key} must be a text, not {value!r:.60}")
    if needed and not value.strip():
        raise ConfigError(f"{where}: {key} is missing")
    return value


def _list(entry: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = entry.get(key, [])
    if not isinstance(value, list):
        raise ConfigError(f"{where}: {key} must be a list, not {value!r:.60}")
    return value


def _texts(entry: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """Texts, and `{"each": "module {n}", "to": 40, "from"?: 1}` for many alike."""
    found: list[str] = []
    for one in _list(entry, key, where):
        if isinstance(one, str):
            found.append(one)
            continue
        each: Callable[[str, int], Any] = one.get if isinstance(one, Mapping) else lambda *_: None
        pattern, first, last = each("each", 0), each("from", 1), each("to", 0)
        if not isinstance(pattern, str) or type(first) is not int or type(last) is not int:
            raise ConfigError(f"{where}: {key} must hold texts or {{each, to}}, not {one!r:.60}")
        found += [pattern.replace("{n}", str(number)) for number in range(first, last + 1)]
    return tuple(found)
