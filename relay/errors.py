"""The error tree, by whose fault it is. Imports nothing.

Expected refusals inside the rules are return values; an exception of this tree ends a request or a
command. `code` is stable and machine-readable, `message` says what is wrong (field, value), `hint`
what to do next.
"""

from __future__ import annotations


class RelayError(Exception):
    """Base of every error Relay raises on purpose.

    Args:
        message: what is wrong, naming the field and the value.
        hint: what the reader can do about it; may be empty.
    """

    code = "internal"
    status = 500
    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UserError(RelayError):
    """The request cannot be done as asked; the user can mend it."""

    code, status, exit_code = "bad_request", 400, 2


class ConfigError(UserError):
    """relay.toml, an option or a request body is not as it must be."""

    code = "bad_config"


class NoRepositoryError(UserError):
    """The folder is no usable git repository."""

    code = "no_repository"


class RepositoryRefusedError(UserError):
    """The repository is one that Relay will not work in ($HOME, /, bare, unborn branch)."""

    code = "repository_refused"


class UnknownProviderError(UserError):
    """No provider of that name."""

    code = "unknown_provider"


class MissingBinaryError(UserError):
    """The agent's program is not installed."""

    code = "missing_binary"


class NotFoundError(UserError):
    """No session, approval, contract or commit of that id."""

    code, status, exit_code = "not_found", 404, 5


class NotAllowedError(UserError):
    """No token, a wrong token, a foreign Host or Origin, or an untrusted configuration."""

    code, status, exit_code = "not_allowed", 403, 4


class UnauthorizedError(NotAllowedError):
    """No token, or a wrong one."""

    code, status = "unauthorized", 401


class NotTrustedError(NotAllowedError):
    """A repository's relay.toml names commands and has not been trusted."""

    code = "not_trusted"


class ConflictError(UserError):
    """The request does not fit the present state: ambiguous, busy, or already ended."""

    code, status, exit_code = "conflict", 409, 1


class NoDaemonError(UserError):
    """No daemon answers."""

    code, status, exit_code = "no_daemon", 503, 3


class ProviderError(RelayError):
    """An agent CLI failed in a way that Relay cannot mend."""

    code, status = "provider_failed", 502


class IntegrityError(RelayError):
    """A signed or hash-chained file is not what Relay wrote."""

    code, status = "integrity", 422


class StoreError(RelayError):
    """A file could not be read or written."""

    code, status = "store_failed", 500


class DiskFullError(StoreError):
    """No space is left where Relay has to write."""

    code, status = "disk_full", 507


class NewerFormatError(StoreError):
    """The file was written by a newer Relay."""

    code, status = "newer_format", 409


class GitError(RelayError):
    """A git call failed; the message holds git's own words."""

    code, status = "git_failed", 500


class TimedOutError(RelayError):
    """No answer within the deadline."""

    code, status = "timed_out", 504


class InternalError(RelayError):
    """A fault of Relay's own."""


def _tree(root: type[RelayError]) -> list[type[RelayError]]:
    return [root, *(found for child in root.__subclasses__() for found in _tree(child))]


BY_CODE: dict[str, type[RelayError]] = {kind.code: kind for kind in _tree(RelayError)}
"""Every error of this module by its code: for those who get a code over the wire or in a message."""
