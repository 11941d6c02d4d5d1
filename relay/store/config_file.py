"""Reads relay.toml: the repository's, and the user's own below it.

The bytes are read once: what is parsed is what is hashed, and so what the user trusts. Called by the
daemon for every session it starts, and by local commands.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from relay.core.config import Config
from relay.core.config_parse import merge, parse
from relay.core.config_risks import commands_named, loosened
from relay.errors import ConfigError, NotAllowedError
from relay.store.atomic import OPS, FileOps, read, store_error
from relay.store.places import RepoPlaces
from relay.store.toml_lines import key_lines, line_of
from relay.store.user_config import FILE_NAME

MAX_BYTES = 256 * 1024
"""A configuration larger than this is refused unread."""

_PLACE = re.compile(r" ?\(at (?:line (\d+), column (\d+)|end of document)\)$")


@frozen(kw_only=True)
class LoadedConfig:
    """One file, read.

    Args:
        path: where it is, or would be.
        config: what it says; the defaults when there is no file.
        document: the same as plain TOML values.
        sha256: of its bytes, 64 hexadecimal digits; "" when there is no file.
        present: there is a file.
    """

    path: Path
    config: Config
    document: Mapping[str, Any] = field(factory=dict, hash=False, repr=False)
    sha256: str = ""
    present: bool = False


@frozen(kw_only=True)
class EffectiveConfig:
    """What holds in a repository.

    Args:
        config: the repository's file on top of the user's own. Not to be acted on while trust is
            missing: see `relay.store.trust.require`.
        loaded_user: the user's own file.
        loaded_repo: the repository's file; None outside of a repository.
        needs_trust: what the repository's file could run or change, one line each; empty when it needs
            no trust.
    """

    config: Config
    loaded_user: LoadedConfig
    loaded_repo: LoadedConfig | None = None
    needs_trust: tuple[str, ...] = ()


def load(
    path: Path, *, known: Sequence[str] | None = None, home: str | None = None, ops: FileOps = OPS
) -> LoadedConfig:
    """Read one file.

    Args:
        known: names of the providers there are, so that a section of another one is found; None leaves
            that unchecked.
        home: what a leading ~ of a path becomes; None for the user's home folder.

    Raises:
        ConfigError: it is no TOML (file, line, column), or says what it cannot (all mistakes at once).
        StoreError: it is a link, no regular file, too large, or cannot be read.
    """
    data = read(path, ops=ops, limit=MAX_BYTES)
    if data is None:
        return LoadedConfig(path=path, config=Config())
    text = _decoded(data, path)
    document = _document(text, path)
    lines = key_lines(text)
    config = parse(
        document,
        file=str(path),
        line_of=lambda at: line_of(lines, at),
        known=known,
        home=_home() if home is None else home,
    )
    digest = hashlib.sha256(data).hexdigest()
    return LoadedConfig(path=path, config=config, document=document, sha256=digest, present=True)


def load_user(
    config_dir: Path, *, known: Sequence[str] | None = None, home: str | None = None, ops: FileOps = OPS
) -> LoadedConfig:
    """Read the user's own file, which needs no trust and may be a link (to a folder of dot files).

    Raises:
        NotAllowedError: it is another user's, or others may change it.
        ConfigError, StoreError: as `load`.
    """
    path = Path(os.path.realpath(config_dir / FILE_NAME))
    try:
        facts = ops.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return LoadedConfig(path=path, config=Config())
    except OSError as error:
        raise store_error(error, f"look at {path}") from error
    if os.name != "nt" and stat.S_ISREG(facts.st_mode):
        if facts.st_uid not in (os.geteuid(), 0):
            raise NotAllowedError(
                f"{path} belongs to another user (uid {facts.st_uid})", hint="change its owner, or remove it"
            )
        if facts.st_mode & stat.S_IWOTH:
            raise NotAllowedError(
                f"{path} can be changed by anyone (mode {stat.S_IMODE(facts.st_mode):04o})",
                hint=f"run: chmod o-w {path}",
            )
    return load(path, known=known, home=home, ops=ops)


def load_effective(
    repo_root: Path | None,
    config_dir: Path,
    *,
    known: Sequence[str] | None = None,
    home: str | None = None,
    ops: FileOps = OPS,
) -> EffectiveConfig:
    """What holds in a repository, or outside of any.

    Args:
        repo_root: the repository's top folder, or None.
        config_dir: the folder of the user's own file: `relay.store.user_config`.
        known, home: as `load`.

    Raises:
        ConfigError, NotAllowedError, StoreError: as `load_user`, for either file.
    """
    home = _home() if home is None else home
    mine = load_user(config_dir, known=known, home=home, ops=ops)
    if repo_root is None:
        return EffectiveConfig(config=mine.config, loaded_user=mine)
    places = RepoPlaces(root=repo_root)
    names = None if known is None else (*known, *mine.config.custom_providers)
    theirs = load(places.check(places.config), known=names, home=home, ops=ops)
    merged = parse(
        merge(mine.document, theirs.document),
        file=f"{theirs.path} on top of {mine.path}",
        line_of=lambda _: None,
        home=home,
    )
    needs = (*commands_named(theirs.config), *loosened(mine.config, merged))
    return EffectiveConfig(config=merged, loaded_user=mine, loaded_repo=theirs, needs_trust=needs)


def _home() -> str:
    return str(Path("~").expanduser())


def _decoded(data: bytes, path: Path) -> str:
    try:
        # Editors on Windows put a byte order mark in front, which tomllib does not take.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = len(before) - before.rfind(b"\n")
        raise ConfigError(
            f"{path}:{before.count(10) + 1}:{column}: byte 0x{data[error.start]:02x} is not UTF-8",
            hint="save the file as UTF-8",
        ) from error


def _document(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(error), text, path) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: a number in it is too long, or it is nested too deeply", hint="write it in another way"
        ) from error


def _syntax_error(words: str, text: str, path: Path) -> ConfigError:
    place = _PLACE.search(words)
    what = words[: place.start()] if place else words
    line, column = (place.group(1), place.group(2)) if place else (None, None)
    if place and line is None:
        # It ends too early: the last line that holds anything is where to look.
        last = text.rstrip()
        line, column = str(last.count("\n") + 1), str(len(last) - last.rfind("\n"))
    at = f":{line}:{column}" if line else ""
    if what == "Illegal character '\\n'":
        what = "a text is not closed before the line ends"
    return ConfigError(
        f"{path}{at}: not valid TOML: {what[:1].lower()}{what[1:]}",
        hint="texts stand in quotes, lists in [ ], and a section begins with its name in [ ], like [relay]",
    )
