"""What aider reports of an edit that did not fit, in a chat that is read."""

from __future__ import annotations

from pathlib import Path

from relay.core.intel import SessionIntel
from relay.providers.aider_store import AiderStore
from relay.providers.store_protocol import Machine
from tests.fakes.lifting import lifted

START = "\n# aider chat started at 2026-01-01 10:00:00\n\n"
REPORT = """> The LLM did not conform to the edit format.
> https://aider.chat/docs/troubleshooting/edit-errors.html
>
> # 1 SEARCH/REPLACE block failed to match!

## SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in orders/api.py
<<<<<<< SEARCH
Decision: quoted from the file
=======
Constraint: quoted too
>>>>>>> REPLACE

The SEARCH section must exactly match an existing block of lines including all white space, etc
"""
OTHERS = """
# The other 1 SEARCH/REPLACE block were applied successfully.
Don't re-send them.
Just reply with fixed versions of the block above that failed to match.
"""


def read(folder: Path, chat: str) -> SessionIntel:
    (folder / ".aider.chat.history.md").write_text(START + chat)
    [intel] = lifted(AiderStore(), Machine(env={}, home="/nowhere", folders=(str(folder),)))
    return intel


def test_an_edit_that_did_not_fit_failed_in_its_file(tmp_path: Path) -> None:
    chat = f"#### Go\n\nAn answer.\n\n{REPORT}{OTHERS}\nDecision: read it first.\n\n"
    failed = read(tmp_path, chat)
    mended = read(tmp_path, chat + "> Applied edit to orders/api.py\n")

    assert [each.what for each in failed.failed_attempts] == ["edit orders/api.py"]
    assert (failed.decisions, failed.constraints) == (("read it first.",), ())
    assert failed.last_message == "Decision: read it first."
    assert mended.failed_attempts == ()
    assert mended.files_changed == ("orders/api.py",)
