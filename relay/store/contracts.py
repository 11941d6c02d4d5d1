"""A session's contract on disk: `envelope.md` and `envelope.json`, written and read as a pair."""

from __future__ import annotations

from pathlib import Path

from relay.core.contract import MAX_BYTES, Contract, dump, verify
from relay.errors import IntegrityError, NotFoundError
from relay.store.atomic import read, replace


def write(folder: Path, contract: Contract, markdown: str) -> None:
    """Write the pair, the Markdown first; a crash between the two leaves a pair that does not verify.

    Args:
        folder: the session's folder.
        contract: signed.

    Raises:
        StoreError, DiskFullError: it could not be written; the files that were there are whole.
    """
    replace(folder / "envelope.md", markdown.encode())
    replace(folder / "envelope.json", dump(contract))


def load_verified(folder: Path, key: bytes, *, session_id: str) -> tuple[Contract, str]:
    """The contract and its Markdown, if both are what Relay wrote for this session.

    Raises:
        NotFoundError: there is no contract.
        IntegrityError: one of the files was changed, or one is missing; names the file.
        NewerFormatError, StoreError: it can't be read.
    """
    data = read(folder / "envelope.json", limit=MAX_BYTES)
    markdown = read(folder / "envelope.md", limit=MAX_BYTES)
    if data is None and markdown is None:
        raise NotFoundError(f"there is no contract in {folder}")
    if data is None or markdown is None:
        missing = "envelope.json" if data is None else "envelope.md"
        raise IntegrityError(f"{folder / missing} is missing", hint="hand over again to have it written")
    try:
        contract = verify(data, markdown, key, session_id=session_id)
        return contract, markdown.decode()
    except IntegrityError as error:
        raise IntegrityError(f"{folder / 'envelope.json'}: {error.message}", hint=error.hint) from error
