"""Where Relay's files lie, and that they are the user's own.

`StatePlaces` is the user's state folder, `RepoPlaces` the `.relay/` of one repository. A repository may
come from anyone and an agent works in it, so nothing below `.relay/` is used through a link, and no path is
built from an id that does not have an id's shape. Used by every part of the store and by the effects.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from attrs import field, frozen

from relay.errors import ConfigError, StoreError, UserError
from relay.store.atomic import OPS, read, replace, store_error

STATE_VARIABLE = "RELAY_STATE_DIR"
_SESSION_ID = re.compile(r"s-[0-9A-Za-z]{6,40}")
_ANY_ID = re.compile(r"[a-z]-[0-9A-Za-z]{6,40}")
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,63}")
_SHARED = b"*\n!relay.toml\n!pipelines.json\n"
_NOT_SHARED = b"# Written by Relay: all of this folder is private but the files named here.\n" + _SHARED


def session_id(text: str) -> str:
    """The same text, if it has the shape of a session's id ("s-" and 6 to 40 letters and digits).

    Raises:
        UserError: it has not; it may be anything a client sent.
    """
    return _shaped(_SESSION_ID, text, "session id", "it looks like s-4k2m9x7q; `relay status` lists them")


def any_id(text: str) -> str:
    """The same text, if it has the shape of an id of any kind (a letter, "-", 6 to 40 letters and digits).

    Raises:
        UserError: it has not.
    """
    return _shaped(_ANY_ID, text, "id", "it is a letter, a dash, and 6 to 40 letters and digits")


def name(text: str) -> str:
    """The same text, if it can name a folder (provider, account): letters, digits, "_", ".", "-".

    Raises:
        UserError: it cannot.
    """
    return _shaped(_NAME, text, "name", "use letters, digits, '_', '.' and '-', 64 at most")


def private_folder(path: Path) -> Path:
    """Make a folder for the user alone (0700), or check that the one that is there is one.

    The folders above it must exist.

    Raises:
        StoreError: it is a link, no folder, another user's, or cannot be made.
    """
    try:
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        facts = _own(path)
        if not stat.S_ISDIR(facts.st_mode):
            raise StoreError(f"{path} is not a folder", hint="move it away; Relay makes the folder")
        if os.name != "nt" and stat.S_IMODE(facts.st_mode) != 0o700:
            path.chmod(0o700)
    except OSError as error:
        raise store_error(error, f"make the folder {path}") from error
    return path


def _absolute(path: Path) -> Path:
    return Path(os.path.realpath(path))


@frozen(kw_only=True)
class StatePlaces:
    """The user's state folder.

    Args:
        root: absolute; `locate` finds it.
    """

    root: Path

    @classmethod
    def locate(cls, env: Mapping[str, str]) -> StatePlaces:
        """The folder that RELAY_STATE_DIR names, else `relay` in the platform's folder for state.

        Raises:
            ConfigError: the variable holds a relative path: daemon and client would not agree on it.
        """
        given = env.get(STATE_VARIABLE, "")
        if given:
            path = Path(given).expanduser()
            if not path.is_absolute():
                raise ConfigError(
                    f"{STATE_VARIABLE} is {given!r}, a relative path", hint="set it to an absolute path"
                )
        else:
            import platformdirs

            path = Path(platformdirs.user_state_dir("relay", appauthor=False))
        # The folders above may well be links; the state folder itself must not be one.
        return cls(root=_absolute(path.parent) / path.name)

    def ensure(self) -> StatePlaces:
        """Make the folder and those in it, for the user alone.

        Raises:
            StoreError: one is a link, another user's, or cannot be made.
        """
        try:
            self.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise store_error(error, f"make the folder {self.root.parent}") from error
        for folder in (self.root, self.log, self.fifos, self.anchors, self.accounts):
            private_folder(folder)
        return self

    @property
    def lock(self) -> Path:
        """Held by the running daemon."""
        return self.root / "daemon.lock"

    @property
    def daemon(self) -> Path:
        """Port, pid and url of the running daemon; 0600."""
        return self.root / "daemon.json"

    @property
    def token(self) -> Path:
        """The token of local clients."""
        return self.root / "token"

    @property
    def signing_key(self) -> Path:
        """The key that contracts and anchors are signed with."""
        return self.root / "signing.key"

    @property
    def trust(self) -> Path:
        """Hashes of the configurations the user trusts."""
        return self.root / "trust.json"

    @property
    def sequence(self) -> Path:
        """The last event number that was reserved."""
        return self.root / "sequence.json"

    @property
    def breakers(self) -> Path:
        """The providers' circuit breakers."""
        return self.root / "breakers.json"

    @property
    def repositories(self) -> Path:
        """The repositories that have, or had, sessions."""
        return self.root / "repositories.json"

    @property
    def members(self) -> Path:
        """Who may come in besides the user."""
        return self.root / "members.toml"

    @property
    def ledger(self) -> Path:
        """What was spent."""
        return self.root / "ledger.db"

    @property
    def log(self) -> Path:
        """Folder of the daemon's own log."""
        return self.root / "log"

    @property
    def fifos(self) -> Path:
        """Folder of the children's FIFOs."""
        return self.root / "fifo"

    @property
    def anchors(self) -> Path:
        """Folder of the audit logs' anchors."""
        return self.root / "anchors"

    @property
    def accounts(self) -> Path:
        """Folder of the providers' accounts."""
        return self.root / "accounts"

    @property
    def audit(self) -> Path:
        """The audit log of what belongs to no repository."""
        return self.root / "audit.jsonl"

    @property
    def audit_anchor(self) -> Path:
        """The anchor of that log."""
        return self.anchors / "daemon.json"

    def anchor(self, repository: Path) -> Path:
        """The anchor of a repository's audit log."""
        digest = hashlib.sha256(os.fsencode(_absolute(repository))).hexdigest()
        return self.anchors / f"{digest}.json"

    def account(self, provider: str, label: str) -> Path:
        """Folder of one account. Raises UserError for names of another shape."""
        return self.accounts / name(provider) / name(label)


@frozen(kw_only=True)
class RepoPlaces:
    """The `.relay/` of one repository.

    Args:
        root: the repository's top folder; links on the way to it are resolved.
    """

    root: Path = field(converter=_absolute)

    def ensure(self) -> RepoPlaces:
        """Make `.relay/` with its folders (0700) and its .gitignore.

        Raises:
            StoreError: one of them is a link, another user's, or cannot be made.
        """
        for folder in (self.folder, self.sessions, self.worktrees):
            private_folder(folder)
        present = read(self.gitignore) or b""
        # Last pattern wins in git: what a user added stays in force behind ours.
        if b"*" not in [line.strip() for line in present.split(b"\n")]:
            replace(self.gitignore, _NOT_SHARED + present, 0o644)
        return self

    def ensure_session(self, sid: str) -> Path:
        """Make a session's folder, and those above it. Raises UserError, StoreError."""
        self.ensure()
        return private_folder(self.session(sid))

    def check(self, path: Path) -> Path:
        """The same path, if nothing from `.relay/` down to it is a link or another user's.

        What does not exist is in order. A folder is asked of all but the last part.

        Raises:
            StoreError: a part of it is not what Relay made.
            UserError: the path does not lie in `.relay/`.
        """
        try:
            parts = path.relative_to(self.folder).parts
        except ValueError as error:
            raise UserError(f"{path} does not lie in {self.folder}") from error
        if ".." in parts:
            raise UserError(f"{path} leads out of {self.folder}")
        place = self.folder
        for part in (None, *parts):
            place = place if part is None else place / part
            try:
                facts = _own(place)
            except FileNotFoundError:
                break
            except OSError as error:
                raise store_error(error, f"look at {place}") from error
            if place != path and not stat.S_ISDIR(facts.st_mode):
                raise StoreError(f"{place} is not a folder", hint="move it away; Relay makes the folder")
        return path

    def session_ids(self) -> tuple[str, ...]:
        """Ids of the sessions that have a folder here, sorted. Raises StoreError."""
        try:
            with os.scandir(self.check(self.sessions)) as found:
                ids = [
                    entry.name
                    for entry in found
                    if _SESSION_ID.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
                ]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise store_error(error, f"list {self.sessions}") from error
        return tuple(sorted(ids))

    @property
    def folder(self) -> Path:
        """`.relay/` itself."""
        return self.root / ".relay"

    @property
    def gitignore(self) -> Path:
        """Keeps git from everything that is not meant to be shared."""
        return self.folder / ".gitignore"

    @property
    def config(self) -> Path:
        """relay.toml; may be shared."""
        return self.folder / "relay.toml"

    @property
    def pipelines(self) -> Path:
        """pipelines.json; may be shared."""
        return self.folder / "pipelines.json"

    @property
    def graph(self) -> Path:
        """The SQLite database."""
        return self.folder / "graph.db"

    @property
    def audit(self) -> Path:
        """The audit log."""
        return self.folder / "audit.jsonl"

    @property
    def sessions(self) -> Path:
        """Folder of the sessions' folders."""
        return self.folder / "sessions"

    @property
    def worktrees(self) -> Path:
        """Folder of the sessions' worktrees."""
        return self.folder / "worktrees"

    @property
    def adopted(self) -> Path:
        """Folder of adopted briefs."""
        return self.folder / "adopted"

    def session(self, sid: str) -> Path:
        """A session's folder. Raises UserError for what is no session id, as all below."""
        return self.sessions / session_id(sid)

    def fsm(self, sid: str) -> Path:
        """The session's state machine."""
        return self.session(sid) / "fsm.json"

    def envelope_md(self, sid: str) -> Path:
        """The last contract, for the agent."""
        return self.session(sid) / "envelope.md"

    def envelope_json(self, sid: str) -> Path:
        """The last contract, signed."""
        return self.session(sid) / "envelope.json"

    def run(self, sid: str, number: int) -> Path:
        """The folder of the session's run, numbered from 1."""
        if type(number) is not int or number < 1:
            raise UserError(f"{number!r:.40} is no run number", hint="runs are numbered from 1")
        return self.session(sid) / f"run-{number}"

    def worktree(self, sid: str) -> Path:
        """The session's git worktree."""
        return self.worktrees / session_id(sid)


def _shaped(shape: re.Pattern[str], text: str, what: str, hint: str) -> str:
    if not isinstance(text, str) or not shape.fullmatch(text):
        raise UserError(f"{text!r:.60} is no {what}", hint=hint)
    return text


def _own(path: Path) -> os.stat_result:
    facts = OPS.lstat(path)
    if stat.S_ISLNK(facts.st_mode):
        raise StoreError(
            f"{path} is a symbolic link, which Relay does not follow here",
            hint="remove the link, or put the folder or file itself in its place",
        )
    if hasattr(os, "geteuid") and facts.st_uid != os.geteuid():
        raise StoreError(
            f"{path} belongs to another user (uid {facts.st_uid})",
            hint="run Relay as that user, or change the owner with chown",
        )
    return facts
