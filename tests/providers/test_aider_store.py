"""Chats of aider, found in the folders that Relay knows and read, and what damages them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.events import TokenUsage
from relay.core.intel import Depth, SessionIntel
from relay.providers.aider_store import AiderStore
from relay.providers.store_protocol import Machine, RunningProcess
from tests.fakes.lifting import FILES, found, lifted, machine, the_one, told
from tests.fakes.stores import place, recordings

TELL = "Create hello.txt and tell me when done"
HELLO = "Hello. This is a plain text answer from the mock model."
NAME = ".aider.chat.history.md"


def spent(input: int, output: int) -> TokenUsage:  # noqa: A002
    return TokenUsage(input=input, output=output)


EDIT: dict[str, Any] = {"files_changed": ("hello.txt",), "turn_open": False}
RECORDINGS: dict[str, dict[str, Any]] = {
    "aider_edit": {**EDIT, "first_prompt": "Create hello.txt", "tokens": spent(923, 26), "begun": "05:24:10"},
    "aider_edit_diff": {**EDIT, "tokens": spent(2800, 26), "begun": "05:32:41"},
    "auth_401": {"limits": ("auth",), "begun": "05:31:33"},
    "context_400": {"limits": ("context_overflow",), "tokens": spent(772, 0), "begun": "05:31:55"},
    "model_404": {"limits": ("other",), "begun": "05:32:06"},
    "overloaded_503": {"limits": ("overload",), "begun": "05:32:15"},
    "plain": {"last_message": HELLO, "turn_open": False, "tokens": spent(929, 14), "begun": "05:31:33"},
    "quota_billing_429": {"limits": ("usage_limit",), "begun": "05:31:40"},
    "rate_limit_429": {"limits": ("rate_limit_transient",), "begun": "05:31:41"},
}


@pytest.mark.parametrize("scenario", sorted(RECORDINGS))
def test_every_recorded_chat_is_found_and_read(tmp_path: Path, scenario: str) -> None:
    home, cwd = place(f"aider/{scenario}", tmp_path)
    where = machine(home, folders=(str(cwd),))
    intel = the_one(AiderStore(), where)
    expected = {
        "first_prompt": TELL,
        "model": "openai/mock-model",
        "version": "0.86.2",
        "cwd": str(cwd),
        "turn_open": True,
        "files_changed": (),
        "tokens": TokenUsage(),
        **RECORDINGS[scenario],
    }
    limits, begun = expected.pop("limits", ()), expected.pop("begun")
    assert {name: getattr(intel, name) for name in expected} == expected
    assert tuple(dict.fromkeys(limit.failure.value for limit in intel.limits)) == limits
    assert intel.started_at is not None
    assert intel.started_at.astimezone().strftime("%Y-%m-%d %H:%M:%S") == f"2026-12-02 {begun}"
    assert intel.native_id.startswith("20261202-" + begun.replace(":", ""))
    assert told(the_one(AiderStore(), where, Depth.LIST)) == told(intel)


def test_there_is_an_expectation_for_every_recording() -> None:
    assert set(RECORDINGS) == recordings("aider")


START = "\n# aider chat started at {}\n\n> Aider v0.86.2  \n> Main model: sonnet with diff edit format  \n"


def chats(tmp_path: Path, *bodies: str, whole: bool = False) -> list[SessionIntel]:
    """Chats one after the other in one file, a day apart; or the parts of a whole one."""
    bodies = ("".join(bodies),) if whole else bodies
    text = "".join(
        START.format(f"2026-01-0{day} 10:00:00") + body for day, body in enumerate(bodies, start=1)
    )
    (tmp_path / NAME).write_text(text)
    return lifted(AiderStore(), where(tmp_path))


def where(tmp_path: Path) -> Machine:
    return Machine(env={}, home="/nowhere", folders=(str(tmp_path),))


def test_chats_in_one_file_are_told_apart_and_only_the_newest_grows(tmp_path: Path) -> None:
    first, second = chats(tmp_path, "\n#### One  \n\nDone one.\n", "\n#### Two  \n\nDone two.\n")
    assert (first.first_prompt, first.last_message, first.model) == ("One", "Done one.", "sonnet")
    assert (second.first_prompt, second.last_message) == ("Two", "Done two.")
    assert first.native_id < second.native_id
    before = {each.native_id: each.stamp for each in found(AiderStore(), where(tmp_path))}
    with (tmp_path / NAME).open("a") as file:
        file.write("\n#### And more  \n")
    after = {each.native_id: each.stamp for each in found(AiderStore(), where(tmp_path))}
    assert {name for name in after if after[name] != before[name]} == {second.native_id}
    assert lifted(AiderStore(), where(tmp_path))[1].last_prompt == "And more"


def test_two_chats_of_the_same_second_have_two_ids(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(2 * (START.format("2026-01-01 10:00:00") + "#### Hi\n"))
    assert len({each.native_id for each in found(AiderStore(), where(tmp_path))}) == 2


def test_only_chats_that_are_recent_are_listed(tmp_path: Path) -> None:
    chats(tmp_path, "#### One\n", "#### Two\n")
    os.utime(tmp_path / NAME, (1_800_000_000, 1_800_000_000))
    store = AiderStore()
    assert len(list(store.find(FILES, str(tmp_path), 1_790_000_000.0))) == 1
    assert list(store.find(FILES, str(tmp_path), 1_900_000_000.0)) == []
    assert len(list(store.find(FILES, str(tmp_path), 0.0))) == 2


BODY = """
#### Add refunds
#### Never touch the schema.

I decided to use Money. Next: write the tests.

> Tokens: 2.8k sent, 1.5k cache hit, 1,026 received. Cost: $0.01 message, $0.02 session.
> Applied edit to orders/refund.py
> Commit cd9b97f feat: refunds

a body of the commit

> Added README.md to the chat
> pytest -q
> Run shell command? (Y)es/(N)o/(D)on't ask again [Yes]: y
> Running pytest -q

#### /run make

#### /add other.py

#### /ask why Money?

Because.
"""


def test_what_aider_prints_is_understood(tmp_path: Path) -> None:
    [intel] = chats(tmp_path, re.sub(r"(?m)^(#### .*|> .*)$", r"\1  ", BODY))
    assert intel.first_prompt == "Add refunds\nNever touch the schema."
    assert intel.rules == ("Never touch the schema.",)
    assert "use Money" in str(intel.decisions)
    assert intel.next_step == "write the tests."
    assert intel.last_prompt == "why Money?"
    assert (intel.files_changed, intel.files_read) == (("orders/refund.py",), ("README.md",))
    assert [(run.command, run.exit_code) for run in intel.commands] == [("pytest -q", None), ("make", None)]
    assert intel.tokens == TokenUsage(input=1300, cached_input=1500, output=1026)
    assert (intel.cost_usd, intel.last_message) == (0.02, "Because.")
    assert "a body of the commit" not in str(intel)
    assert intel.turn_open


HEADINGS = """
#### Explain the queue__

#### How it works

One file.

#### Recovery__
It is cut at the last good record.
#### Loss__

Never lose a record.

> Tokens: 2.8k sent, 26 received.__

#### Write that down__
#### in the docs__

docs/queue.md
```
<<<<<<< SEARCH
=======
# Queue

#### Recovery

##### Never lose a record
>>>>>>> REPLACE
```

> Applied edit to docs/queue.md__

#### __
#### Thanks__
""".replace("__", "  ")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_heading_in_an_answer_is_no_prompt(tmp_path: Path, ends: str) -> None:
    text = START.format("2026-01-01 10:00:00") + HEADINGS
    (tmp_path / NAME).write_text(text, newline=ends)
    [intel] = lifted(AiderStore(), where(tmp_path))
    prompts = [turn.text for turn in intel.turns if turn.role == "user"]
    assert prompts == ["Explain the queue", "Write that down\nin the docs", "Thanks"]
    headings = ("#### How it works", "#### Recovery", "#### Loss")
    assert [heading in intel.turns[1].text for heading in headings] == [True, True, True]
    assert intel.rules == ()
    assert intel.files_changed == ("docs/queue.md",)


def test_what_aider_writes_as_a_prompt_itself_is_none(tmp_path: Path) -> None:
    plan = ["Rename it.", "", "#### Steps", "- Never keep the old name"]
    handed = "\n".join(f"#### {line}  " for line in plan)
    [intel] = chats(
        tmp_path,
        "\n#### /architect Find a better name  \n\n#### Find a better name  \n\n" + "\n".join(plan),
        f"\n\n> Tokens: 1k sent, 9 received.  \n\n{handed}  \n\nRenamed.\n\n",
        "\n#### Add file to the chat? (Y)es/(N)o/(A)ll/(S)kip all [Yes]: all  \n",
        "\n#### Find a better name  \n",
        whole=True,
    )
    assert [turn.text for turn in intel.turns if turn.role == "user"] == ["Find a better name"] * 2
    assert (intel.rules, intel.last_message) == ((), "Renamed.")


def test_prompts_are_read_where_an_editor_trimmed_the_lines(tmp_path: Path) -> None:
    text = START.format("2026-01-01 10:00:00") + "\n#### One\n#### more\n\nDone.\n\n##### Two\n\n#### Three\n"
    (tmp_path / NAME).write_text(re.sub(r"(?m) +$", "", text))
    [intel] = lifted(AiderStore(), where(tmp_path))
    assert (intel.first_prompt, intel.last_prompt) == ("One\nmore", "Three")
    assert intel.last_message == "Done.\n\n##### Two"


def test_a_chat_that_was_stopped_is_open(tmp_path: Path) -> None:
    [intel] = chats(tmp_path, "#### Go  \n\nHalf an ans\n\n> ^C again to exit  \n")
    assert (intel.turn_open, intel.last_message) == (True, "Half an ans")


@pytest.mark.parametrize(
    ("argv", "name", "runs"),
    [
        (("/v/bin/python3.11", "/v/bin/aider", "--model", "x", "--message", "Go"), "aider", True),
        (("aider",), "aider", True),
        (("python3", "-m", "aider"), "python3", True),
        (("aider", "--version"), "aider", False),
        (("vim", "aider"), "vim", False),
        (("python3", "server.py"), "python3", False),
        ((), "", False),
    ],
)
def test_its_processes_are_told_from_others(argv: tuple[str, ...], name: str, runs: bool) -> None:
    assert AiderStore().runs(RunningProcess(pid=1, name=name, argv=argv)) is runs


def test_it_takes_up_the_newest_chat_of_its_folder() -> None:
    assert AiderStore().resume_argv("x") == ("aider", "--restore-chat-history")
    assert list(AiderStore().live(FILES, "/nowhere")) == []


PIECES = [
    "Plain text.",
    "#### Something else  ",
    "> Applied edit to a.py  ",
    "> Tokens: ",
    "> Tokens: .k sent",
]
NOISE = st.one_of(st.sampled_from(PIECES), st.text(max_size=12)).map(
    lambda text: text.encode("utf-8", "replace")
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(before=st.lists(NOISE, max_size=5), after=st.lists(NOISE | st.binary(max_size=9), max_size=5))
def test_nothing_in_a_chat_raises_or_hides_what_stands_before_or_behind(
    tmp_path: Path, before: list[bytes], after: list[bytes]
) -> None:
    told_of = b"\n\n#### Remember this  \n\n> Applied edit to kept.py  \n"
    text = START.format("2026-01-01 10:00:00").encode() + b"\n".join(before) + told_of + b"\n".join(after)
    (tmp_path / NAME).write_bytes(text)
    intels = lifted(AiderStore(), where(tmp_path))
    assert "Remember this" in str(intels[0])
    assert "kept.py" in str(intels[0].files_changed)
