"""A session from its begin to its merge: the checkout it came from, pauses, its end."""

from __future__ import annotations

import json
from typing import Any

import trio
import trio_websocket

from tests.e2e.harness import PATIENCE, Relay, Stage, marked

WRITE = {"write": {"path": "made.txt", "content": "made\n"}}


def dirty(stage: Stage) -> None:
    """Uncommitted work of every sort in the user's checkout."""
    (stage.repo / "README.md").write_text("# A project, and more\n")
    (stage.repo / "staged.txt").write_text("staged\n")
    stage.git("add", "staged.txt")
    (stage.repo / "loose.txt").write_text("loose\n")
    (stage.repo / ".gitignore").write_text("ignored.txt\n")
    (stage.repo / "ignored.txt").write_text("ignored\n")


async def test_uncommitted_changes_are_carried_along(stage: Stage) -> None:
    dirty(stage)
    stage.scripted("one", tasks=[{"name": "Look", "steps": [{"shell": "cat loose.txt staged.txt"}, WRITE]}])
    async with stage.daemon() as relay:
        sid = await relay.run("Look around", "scripted/one", allow="all")
        await relay.reach(sid, "COMPLETED")
        assert (await relay.event(sid, "session"))["carriedFiles"] == 4
        assert stage.file(sid, "README.md") == "# A project, and more\n"
        assert stage.file(sid, "staged.txt") + stage.file(sid, "loose.txt") == "staged\nloose\n"
        assert "ignored.txt" not in stage.git("ls-tree", "--name-only", f"relay/{sid}").split()
        diff = await relay.get(f"/api/sessions/{sid}/diff")
        assert "made.txt" in json.dumps(diff)
        assert "staged.txt" not in json.dumps(diff)


async def test_a_clean_session_leaves_them_out(stage: Stage) -> None:
    dirty(stage)
    stage.scripted("one", tasks=[{"name": "Look", "steps": [WRITE]}])
    async with stage.daemon() as relay:
        sid = await relay.run("Look around", "scripted/one", clean=True)
        await relay.reach(sid, "COMPLETED")
        names = stage.git("ls-tree", "--name-only", f"relay/{sid}").split()
        assert names == ["README.md", "made.txt"]
        assert stage.file(sid, "README.md") == "# A project\n"


async def test_a_session_is_paused_and_resumed(stage: Stage) -> None:
    steps: list[Any] = [WRITE, {"shell": "until [ -e go ]; do sleep 0.05; done"}, "hang"]
    last = {"write": {"path": "last.txt", "content": "last\n"}}
    stage.scripted("one", tasks=[{"name": "Begin", "steps": steps}, {"name": "End", "steps": [last]}])
    stage.settings["relay"] = "pause_deadline_seconds = 0.2"
    async with stage.daemon() as relay:
        sid = await relay.run("Begin and end", "scripted/one", allow="all")
        await relay.appears(stage.worktree(sid) / "made.txt")
        await relay.act(sid, "pause")
        paused = await relay.reach(sid, "WAITING")
        assert "paused" in paused["waitReason"]
        assert paused["wakeAt"] is None
        assert marked(sid) == []
        assert stage.file(sid, "made.txt") == "made\n"
        stage.scripted_plays("one", tasks=[{"name": "Begin", "steps": []}, {"name": "End", "steps": [last]}])
        await relay.act(sid, "resume")
        done = await relay.reach(sid, "COMPLETED")
        assert [run["target"] for run in done["runs"]] == ["scripted/one", "scripted/one"]
        assert done["handoffsDone"] == 0
        assert stage.file(sid, "last.txt") == "last\n"


async def test_a_stopped_session_keeps_its_work_and_nothing_alive(stage: Stage) -> None:
    child = {"spawn": {"command": "sleep 300", "ignore_term": True, "new_session": True}}
    stage.scripted("one", tasks=[{"name": "Begin", "steps": [child, WRITE, "hang"]}])
    async with stage.daemon() as relay:
        sid = await relay.run("Begin", "scripted/one", allow="all")
        await relay.appears(stage.worktree(sid) / "made.txt")
        await relay.act(sid, "merge", 409)
        await relay.act(sid, "stop")
        await relay.reach(sid, "STOPPED")
        assert marked(sid) == []
        assert stage.file(sid, "made.txt") == "made\n"
        await relay.act(sid, "stop", 409)


async def made(stage: Stage, relay: Relay) -> str:
    """A session that is over, with a new file on its branch."""
    sid = await relay.run("Make it", "scripted/one")
    await relay.reach(sid, "COMPLETED")
    return sid


async def test_merge_brings_the_work_into_the_checkout(stage: Stage) -> None:
    stage.scripted("one", tasks=[{"name": "Make", "steps": [WRITE]}])
    async with stage.daemon(touches_checkout=True) as relay:
        sid = await made(stage, relay)
        merged = await relay.act(sid, "merge")
        assert (stage.repo / "made.txt").read_text() == "made\n"
        assert stage.git("status", "--porcelain") == ""
        assert stage.git("rev-parse", "--abbrev-ref", "HEAD").strip() == "main" == merged["branch"]
        assert (await relay.session(sid))["mergedInto"] == "main"


async def test_merge_refuses_to_overwrite_what_is_not_committed(stage: Stage) -> None:
    stage.scripted("one", tasks=[{"name": "Make", "steps": [WRITE]}])
    async with stage.daemon(touches_checkout=True) as relay:
        sid = await made(stage, relay)
        (stage.repo / "made.txt").write_text("mine\n")
        before = stage.checkout()
        refused = await relay.act(sid, "merge", 409)
        assert "made.txt" in refused["error"]["message"]
        assert stage.checkout() == before
        (stage.repo / "made.txt").unlink()
        await relay.act(sid, "merge")
        assert (stage.repo / "made.txt").read_text() == "made\n"


async def test_discard_removes_worktree_and_branch(stage: Stage) -> None:
    stage.scripted("one", tasks=[{"name": "Make", "steps": [WRITE]}])
    async with stage.daemon() as relay:
        sid = await made(stage, relay)
        await relay.act(sid, "discard")
        assert not stage.worktree(sid).exists()
        assert stage.git("branch", "--list", f"relay/{sid}") == ""
        assert (await relay.session(sid))["discarded"] is True


async def test_every_event_comes_over_the_websocket_once_and_in_order(stage: Stage) -> None:
    stage.scripted("one", tasks=[{"name": "Talk", "steps": [{"flood": {"events": 500}}, WRITE]}])
    async with stage.daemon() as relay:
        received: list[dict[str, Any]] = []
        with trio.fail_after(PATIENCE):
            async with follow(relay, after=0) as socket:
                sid = await relay.run("Talk", "scripted/one")
                while not any(e["type"] == "fsm" and e["data"]["to"] == "COMPLETED" for e in received):
                    received += json.loads(await socket.get_message())
        mine = [event["seq"] for event in received if event["session"] == sid]
        assert mine == sorted(set(mine))
        stored = await relay.get(f"/api/sessions/{sid}/events")
        assert [event["seq"] for event in stored][: len(mine)] == mine
        said = [e["data"]["text"].split()[1] for e in received if e["data"].get("kind") == "text"]
        assert said == [str(number) for number in range(1, 501)]


async def test_a_client_that_comes_again_gets_what_it_missed(stage: Stage) -> None:
    stage.scripted("one", tasks=[{"name": "Make", "steps": [WRITE]}])
    async with stage.daemon() as relay:
        sid = await made(stage, relay)
        stored = await relay.get(f"/api/sessions/{sid}/events")
        middle = stored[len(stored) // 2]["seq"]
        with trio.fail_after(PATIENCE):
            async with follow(relay, after=middle) as socket:
                missed = json.loads(await socket.get_message())
        wanted = [event["seq"] for event in stored if event["seq"] > middle]
        assert [event["seq"] for event in missed if event["session"] == sid] == wanted


def follow(relay: Relay, after: int) -> Any:
    """A WebSocket client that knows the token."""
    url = relay.url.replace("http", "ws", 1) + f"/ws?after={after}"
    headers = [(b"Authorization", b"Bearer " + relay.token.encode())]
    return trio_websocket.open_websocket_url(url, extra_headers=headers)
