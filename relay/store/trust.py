"""Which configurations of repositories the user trusts: trust.json in the user's state folder.

A trust holds for one real path and one content: a changed file, or the same file in another place, is not
trusted. `relay trust` records; whatever acts on a repository's configuration calls `require` before.
"""

from __future__ import annotations

import os
import re
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import asdict, field, frozen

from relay.core.config import Config
from relay.errors import NotAllowedError, NotTrustedError, StoreError, UserError
from relay.store.atomic import OPS, FileOps, read_versioned, store_error, write_versioned
from relay.store.config_file import EffectiveConfig

FORMAT_VERSION = 1
KEPT_PER_ROOT = 20
"""Contents trusted in one repository, so that going back to another branch asks nothing anew."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_RESTORE = "nothing is trusted and nothing is written until it is put right: restore a copy, or move it away"


@frozen(kw_only=True)
class Trusted:
    """One trust.

    Args:
        root: the repository's top folder, links resolved.
        sha256: of the file's bytes.
        by: who said so.
        at: when (ISO 8601, with offset).
    """

    root: str
    sha256: str
    by: str
    at: str


@frozen
class TrustStore:
    """The file of trusts.

    Args:
        path: where it lies; its folder exists.
    """

    path: Path
    ops: FileOps = field(default=OPS, repr=False, kw_only=True)

    def entries(self) -> tuple[Trusted, ...]:
        """All trusts, the oldest first.

        Raises:
            StoreError: the file is damaged, or cannot be read.
            NewerFormatError: it was written by a newer version.
            NotAllowedError: it is another user's, or others may change it.
        """
        self._own()
        values = read_versioned(self.path, FORMAT_VERSION, ops=self.ops)
        if values is None:
            return ()
        found = values.get("trusted")
        entries = [_entry(value) for value in found] if isinstance(found, list) else [None]
        kept = tuple(entry for entry in entries if entry is not None)
        if len(kept) != len(entries):
            raise StoreError(f"{self.path} is damaged: it is no list of trusted files", hint=_RESTORE)
        return kept

    def is_trusted(self, repo_root: Path, sha256: str) -> bool:
        """The user trusts this content in this repository. Raises as `entries`."""
        root = _real(repo_root)
        return any(entry.root == root and entry.sha256 == sha256 for entry in self.entries())

    def was_trusted(self, repo_root: Path) -> bool:
        """The user trusts some content in this repository. Raises as `entries`."""
        root = _real(repo_root)
        return any(entry.root == root for entry in self.entries())

    def record(self, repo_root: Path, sha256: str, by: str, at: datetime) -> None:
        """Trust a content in a repository.

        Args:
            sha256: of what the user was shown, 64 hexadecimal digits.
            by: who trusts it.
            at: aware.

        Raises:
            UserError: it is no hash: there is no file to trust.
            StoreError, DiskFullError, NewerFormatError, NotAllowedError: it could not be kept.
        """
        if not _SHA256.fullmatch(sha256):
            raise UserError(
                f"{repo_root} has no relay.toml that could be trusted", hint="`relay init` writes one"
            )
        root = _real(repo_root)
        fresh = Trusted(root=root, sha256=sha256, by=by, at=at.isoformat())
        entries = [entry for entry in self.entries() if (entry.root, entry.sha256) != (root, sha256)]
        here = [entry for entry in entries if entry.root == root]
        dropped = here[: max(0, len(here) + 1 - KEPT_PER_ROOT)]
        self._write([*(entry for entry in entries if entry not in dropped), fresh])

    def forget(self, repo_root: Path) -> int:
        """Trust nothing in a repository any more; says how many contents were trusted. Raises as `record`."""
        root = _real(repo_root)
        entries = self.entries()
        kept = [entry for entry in entries if entry.root != root]
        if len(kept) != len(entries):
            self._write(kept)
        return len(entries) - len(kept)

    def _write(self, entries: list[Trusted]) -> None:
        values = {"trusted": [asdict(entry) for entry in entries]}
        write_versioned(self.path, values, FORMAT_VERSION, ops=self.ops)

    def _own(self) -> None:
        try:
            facts = self.ops.lstat(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise store_error(error, f"look at {self.path}") from error
        if os.name == "nt" or not stat.S_ISREG(facts.st_mode):
            return
        if facts.st_uid != os.geteuid():
            raise NotAllowedError(
                f"{self.path} belongs to another user (uid {facts.st_uid})", hint="run Relay as that user"
            )
        if facts.st_mode & 0o022:
            raise NotAllowedError(
                f"{self.path} can be changed by others (mode {stat.S_IMODE(facts.st_mode):04o})",
                hint=f"look whether it holds what you trusted, then run: chmod 600 {self.path}",
            )


def require(effective: EffectiveConfig, root: Path, store: TrustStore) -> None:
    """Let a configuration pass that needs no trust, or has it.

    Args:
        root: the repository's top folder, as it was given to `load_effective`.

    Raises:
        NotTrustedError: it has not; the message lists what it could run or change.
        StoreError, NewerFormatError, NotAllowedError: the store cannot be relied on.
    """
    loaded = effective.loaded_repo
    if not effective.needs_trust or loaded is None or store.is_trusted(root, loaded.sha256):
        return
    why = "has changed since you trusted it" if store.was_trusted(root) else "is not trusted"
    lines = "\n".join(f"  {line}" for line in effective.needs_trust)
    raise NotTrustedError(
        f"{loaded.path} {why}, and it says what runs on this machine:\n{lines}",
        hint=f"read it; if you agree, run `relay trust` in {root} (sha256 {loaded.sha256[:12]})",
    )


def in_force(effective: EffectiveConfig, root: Path, store: TrustStore) -> Config:
    """What may be acted on where nobody can be asked, as at a restart.

    That is the whole configuration when `require` lets it pass, else the user's own alone.

    Raises:
        StoreError, NewerFormatError, NotAllowedError: the store cannot be relied on.
    """
    try:
        require(effective, root, store)
    except NotTrustedError:
        return effective.loaded_user.config
    return effective.config


def _entry(value: Any) -> Trusted | None:
    if not isinstance(value, dict):
        return None
    texts = [value.get(name) for name in ("root", "sha256", "by", "at")]
    if not all(isinstance(text, str) for text in texts) or not _SHA256.fullmatch(value["sha256"]):
        return None
    return Trusted(root=value["root"], sha256=value["sha256"], by=value["by"], at=value["at"])


def _real(root: Path) -> str:
    return os.path.realpath(root)
