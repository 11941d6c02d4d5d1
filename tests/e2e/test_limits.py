"""Where a limit is seen decides whether it is one: the stream, stderr, or only what the agent says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.harness import Stage

LIMIT = {"kind": "usage_limit", "resets_in": 7200}
HEIR = {"tasks": [{"name": "Write b.txt", "steps": [{"write": {"path": "b.txt", "content": "b\n"}}]}]}


def tasks(*limit: Any) -> list[dict[str, Any]]:
    return [
        {"name": "Write a.txt", "steps": [{"write": {"path": "a.txt", "content": "a\n"}}]},
        {"name": "Write b.txt", "steps": [*limit, {"write": {"path": "b.txt", "content": "b\n"}}]},
    ]


@pytest.mark.parametrize("channel", ["event", "stderr"])
async def test_a_limit_in_the_stream_or_on_stderr_hands_over(stage: Stage, channel: str) -> None:
    stage.scripted("one", tasks=tasks({"limit": {**LIMIT, "channel": channel}}))
    stage.scripted("two", **HEIR)
    async with stage.daemon() as relay:
        sid = await relay.run("Write a.txt and b.txt", "scripted/one", "scripted/two")
        done = await relay.reach(sid, "COMPLETED")
        assert [run["target"] for run in done["runs"]] == ["scripted/one", "scripted/two"]
        failure = await relay.event(sid, "failure")
        assert (failure["class"], failure["decision"]) == ("usage_limit", "HandOff")
        assert stage.file(sid, "a.txt") + stage.file(sid, "b.txt") == "a\nb\n"


@pytest.mark.parametrize(
    "words",
    [
        {"say": "You've reached your usage limit. Resets in 2h."},
        {"shell": 'echo "You\'ve reached your usage limit. Resets in 2h."'},
        {"shell": 'echo "You\'ve reached your usage limit." >&2; exit 1'},
        {"write": {"path": "c.txt", "content": "429 rate_limit_error: usage_limit_reached\n"}},
        {"stderr": "You've reached your usage limit. Resets in 2h."},
    ],
    ids=["said", "printed by a command", "on a command's stderr", "written to a file", "a warning on stderr"],
)
async def test_a_limit_that_is_only_talked_about_hands_nothing_over(
    stage: Stage, words: dict[str, Any]
) -> None:
    stage.scripted("one", tasks=tasks(words))
    stage.scripted("two", **HEIR)
    async with stage.daemon() as relay:
        sid = await relay.run("Write a.txt and b.txt", "scripted/one", "scripted/two", allow="all")
        done = await relay.reach(sid, "COMPLETED")
        assert [run["target"] for run in done["runs"]] == ["scripted/one"]
        assert await relay.events(sid, "failure") == []
        assert stage.file(sid, "b.txt") == "b\n"


async def test_work_that_does_not_verify_goes_back_to_the_agent(stage: Stage) -> None:
    mend = [{"write": {"path": "b.txt", "content": "b\n"}}]
    stage.scripted("one", tasks=tasks()[:1], on_verify_failed=mend)
    async with stage.daemon() as relay:
        sid = await relay.run("Write a.txt and b.txt", "scripted/one", verify=["test -e b.txt"])
        done = await relay.reach(sid, "COMPLETED")
        assert [event["passed"] for event in await relay.events(sid, "verify")] == [False, True]
        assert len(done["runs"]) == 1
        assert done["verified"] is True


async def test_work_that_never_verifies_is_never_done(stage: Stage) -> None:
    stage.scripted("one", tasks=tasks()[:1])
    async with stage.daemon() as relay:
        sid = await relay.run("Write c.txt", "scripted/one", verify=["test -e c.txt"])
        failed = await relay.reach(sid, "FAILED")
        assert "test -e c.txt" in failed["endReason"]
        assert failed["verified"] is False
        assert stage.file(sid, "a.txt") == "a\n"
