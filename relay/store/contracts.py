"""A session's contract on disk: `envelope.md` and `envelope.json`, written and read as a pair.

Called by the effects that seal a contract and that start an agent from it, and by the API.
"""

from __future__ import annotations

from pathlib import Path

from relay.core.brief import contract_named
from relay.core.contract import MAX_BYTES, BriefMismatchError, Contract, dump, verify
from relay.errors import IntegrityError, NewerFormatError, NotFoundError, StoreError
from relay.store.atomic import OPS, FileOps, read, replace

STEM = "envelope"
MARKDOWN = f"{STEM}.md"
JSON = f"{STEM}.json"


class PairIncompleteError(IntegrityError):
    """The two files are not of one contract, as after a crash between writing them: write both anew."""

    code = "pair_incomplete"


def write(folder: Path, contract: Contract, markdown: str, *, stem: str = STEM, ops: FileOps = OPS) -> None:
    """Write the pair, the Markdown first; a crash between the two leaves a pair that does not verify.

    Args:
        folder: the session's folder, or that of adopted work.
        contract: signed for this Markdown.
        stem: what both files are called, but for their endings.

    Raises:
        StoreError, DiskFullError: it could not be written; the files that were there are whole.
        StoreError: it is larger than a reader takes; nothing is written.
    """
    pair = {folder / f"{stem}.md": markdown.encode(), folder / f"{stem}.json": dump(contract)}
    for path, data in pair.items():
        if len(data) > MAX_BYTES:
            raise StoreError(
                f"{path} would have {len(data)} bytes, and {MAX_BYTES} are the most that a contract can have",
                hint="make the task's text or the plan smaller",
            )
    for path, data in pair.items():
        replace(path, data, ops=ops)


def load_verified(
    folder: Path, key: bytes, *, session_id: str | None, stem: str = STEM, ops: FileOps = OPS
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
    json_file, markdown_file = folder / f"{stem}.json", folder / f"{stem}.md"
    data = read(json_file, limit=MAX_BYTES, ops=ops)
    markdown = read(markdown_file, limit=MAX_BYTES, ops=ops)
    if data is None and markdown is None:
        raise NotFoundError(
            f"there is no contract in {folder}", hint="one is written when a session is handed over"
        )
    if data is None or markdown is None:
        raise PairIncompleteError(f"{json_file if data is None else markdown_file} is missing", hint=_ANEW)
    try:
        contract = verify(data, markdown, key, session_id=session_id)
    except BriefMismatchError as error:
        named = contract_named(markdown.decode("utf-8", "replace"))
        if named and named != error.contract.contract_id:
            raise PairIncompleteError(
                f"{markdown_file} is of contract {named}, {json_file.name} of {error.contract.contract_id}",
                hint=_ANEW,
            ) from error
        raise IntegrityError(f"{markdown_file}: {error.message}", hint=error.hint) from error
    except NewerFormatError as error:
        raise NewerFormatError(f"{json_file}: {error.message}", hint=error.hint) from error
    except IntegrityError as error:
        raise IntegrityError(f"{json_file}: {error.message}", hint=error.hint) from error
    return contract, markdown.decode()


_ANEW = "hand over again to have both written anew"
