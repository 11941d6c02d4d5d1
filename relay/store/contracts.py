"""A session's contract on disk: `envelope.md` and `envelope.json`, written and read as a pair.

Called by the effects that seal a contract and that start an agent from it, and by the API.
"""

from __future__ import annotations

from pathlib import Path

from relay.core.brief import contract_named
from relay.core.contract import MAX_BYTES, BriefMismatchError, Contract, dump, verify
from relay.errors import IntegrityError, NewerFormatError, NotFoundError
from relay.store.atomic import OPS, FileOps, read, replace

MARKDOWN = "envelope.md"
JSON = "envelope.json"


class PairIncompleteError(IntegrityError):
    """The two files are not of one contract, as after a crash between writing them: write both anew."""

    code = "pair_incomplete"


def write(folder: Path, contract: Contract, markdown: str, *, ops: FileOps = OPS) -> None:
    """Write the pair, the Markdown first; a crash between the two leaves a pair that does not verify.

    Args:
        folder: the session's folder.
        contract: signed for this Markdown.

    Raises:
        StoreError, DiskFullError: it could not be written; the files that were there are whole.
    """
    replace(folder / MARKDOWN, markdown.encode(), ops=ops)
    replace(folder / JSON, dump(contract), ops=ops)


def load_verified(
    folder: Path, key: bytes, *, session_id: str | None, ops: FileOps = OPS
) -> tuple[Contract, str]:
    """The contract and its Markdown, if both are what Relay wrote for this session.

    Args:
        session_id: whose it must be; None when any will do.

    Raises:
        NotFoundError: there is no contract.
        PairIncompleteError: one of the files is missing, or they belong to two contracts.
        IntegrityError: one of the files was changed; names it.
        NewerFormatError: a newer Relay wrote it.
        StoreError: one of them cannot be read, is a link, or is larger than a contract can be.
    """
    data = read(folder / JSON, limit=MAX_BYTES, ops=ops)
    markdown = read(folder / MARKDOWN, limit=MAX_BYTES, ops=ops)
    if data is None and markdown is None:
        raise NotFoundError(
            f"there is no contract in {folder}", hint="one is written when a session is handed over"
        )
    if data is None or markdown is None:
        raise PairIncompleteError(f"{folder / (JSON if data is None else MARKDOWN)} is missing", hint=_ANEW)
    try:
        contract = verify(data, markdown, key, session_id=session_id)
    except BriefMismatchError as error:
        named = contract_named(markdown.decode("utf-8", "replace"))
        if named and named != error.contract.contract_id:
            raise PairIncompleteError(
                f"{folder / MARKDOWN} is of contract {named}, and {JSON} of {error.contract.contract_id}",
                hint=_ANEW,
            ) from error
        raise IntegrityError(f"{folder / MARKDOWN}: {error.message}", hint=error.hint) from error
    except NewerFormatError as error:
        raise NewerFormatError(f"{folder / JSON}: {error.message}", hint=error.hint) from error
    except IntegrityError as error:
        raise IntegrityError(f"{folder / JSON}: {error.message}", hint=error.hint) from error
    return contract, markdown.decode()


_ANEW = "hand over again to have both written anew"
