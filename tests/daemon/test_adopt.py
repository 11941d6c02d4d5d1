"""Work that other agents began, taken over: by the command line, beside a daemon and by one."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import trio

from tests.fakes.live import Live
from tests.fakes.stores import place

TASK = "Add a refund flow to the orders service"
WRITTEN = {"write": {"path": "finished.txt", "content": "done\n"}}


@pytest.fixture
def shop(home: Live, tmp_path: Path) -> Path:
    """A repository in which Codex has worked, and left something uncommitted."""
    there, cwd = place("codex/plan", tmp_path)
    # As if it had been an hour ago: what is older than a day is not listed.
    lately = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:")
    for rollout in there.glob(".codex/sessions/**/*.jsonl"):
        rollout.write_text(re.sub(r"2026-12-02T\d\d:", lately, rollout.read_text()))
    (cwd / "README.md").write_text("# The shop\n")
    home.git(cwd, "init", "-q", "-b", "main")
    home.git(cwd, "add", "-A")
    home.git(cwd, "commit", "-q", "-m", "Begin")
    (cwd / "half.py").write_text("half = True\n")
    home.plays("one", WRITTEN)
    return cwd


def error_of(ran: CompletedProcess[bytes]) -> str:
    assert ran.returncode != 0
    return ran.stderr.decode()


async def adopted(home: Live, *words: str) -> dict[str, Any]:
    ran = await home.cli("--json", "detect", "--adopt", *words)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout))


async def test_a_brief_is_written_and_its_contract_can_be_checked(home: Live, shop: Path) -> None:
    await home.start()
    answer = await adopted(home, "latest")
    brief, contract = Path(answer["path"]), Path(answer["contractPath"])
    assert {brief.parent, contract.parent} == {shop / ".relay" / "adopted"}
    text = await trio.Path(brief).read_text()
    assert TASK in text
    for file in (brief, contract):
        checked = await home.cli("contract", "verify", str(file))
        assert checked.returncode == 0, checked.stderr
        assert TASK in checked.stdout.decode()

    await trio.Path(brief).write_text(text.replace("refund", "re-fund"))

    assert "was changed" in error_of(await home.cli("contract", "verify", str(contract)))
    assert home.git(shop, "status", "--porcelain") == "?? half.py\n"
    await home.stop()


async def test_the_next_agent_goes_on_from_what_was_left_uncommitted(home: Live, shop: Path) -> None:
    await home.start()
    answer = await adopted(home, "latest", "--target", "scripted/one", "--start", "--detach")
    sid = answer["sessionId"]
    await home.reach(sid, "COMPLETED")

    branch = home.git(shop, "ls-tree", "-r", "--name-only", f"relay/{sid}").split()
    assert {"README.md", "half.py", "finished.txt"} <= set(branch)
    assert home.git(shop, "status", "--porcelain") == "?? half.py\n"
    assert home.git(shop, "branch", "--show-current") == "main\n"
    assert answer["nativeResume"] is False
    assert (
        "scripted/one reads the brief: only codex could resume the session by its own id" in answer["notes"]
    )
    await home.stop()


async def test_what_the_agent_wrote_and_is_not_there_is_not_told_as_done(home: Live, shop: Path) -> None:
    await home.start()

    answer = await adopted(home, "latest", "--target", "scripted/one", "--start", "--detach")

    assert "not there of what it wrote: refund.py" in answer["notes"]
    await home.reach(answer["sessionId"], "COMPLETED")
    opening = await home.client.get("/api/contract", params={"session": answer["sessionId"]})
    for brief in (answer["markdown"], opening.json()["markdown"]):
        assert "Wrote refund.py" not in brief
        assert "edit refund.py: the file is not in the folder now" in brief

    (shop / "refund.py").write_text("def refund(): ...\n")
    there = await adopted(home, "latest", "--dry-run")

    assert "Wrote refund.py" in there["markdown"]
    assert not any("not there" in note for note in there["notes"])
    await home.stop()


async def test_a_dry_run_shows_the_brief_and_writes_nothing(home: Live, shop: Path) -> None:
    await home.start()
    shown = await home.cli("detect", "--adopt", "latest", "--dry-run")

    assert shown.returncode == 0, shown.stderr
    assert TASK in shown.stdout.decode()
    assert not (shop / ".relay" / "adopted").exists()
    await home.stop()


async def test_agents_are_found_as_who_asks_would_find_them_without_a_daemon(
    home: Live, shop: Path, tmp_path: Path
) -> None:
    await home.start()
    elsewhere = tmp_path / "elsewhere"
    shutil.move(tmp_path / "home" / ".codex", elsewhere)
    (shop / "sub").mkdir()
    began = datetime.now(UTC) - timedelta(minutes=2)
    (shop / ".aider.chat.history.md").write_text(
        f"\n# aider chat started at {began:%Y-%m-%d %H:%M:%S}\n\n#### Tidy the shelves\n\nI will.\n"
    )
    home.more_env["CODEX_HOME"] = str(elsewhere)

    listed = await home.cli("--json", "detect", cwd=shop / "sub")

    agents = {agent["provider"]: agent for agent in json.loads(listed.stdout)["agents"]}
    assert agents.keys() == {"codex", "aider"}
    assert agents["codex"]["home"] == str(elsewhere)
    for provider, goal in (("codex", TASK), ("aider", "Tidy the shelves")):
        command = agents[provider]["takeOver"].split()
        assert command[:2] == ["relay", "detect"]
        shown = await home.cli("detect", "show", agents[provider]["id"], cwd=shop / "sub")
        assert f"goal           {goal}" in shown.stdout.decode(), shown.stderr
        ran = await home.cli("--json", *command[1:], "--dry-run", cwd=shop / "sub")
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["goal"] == goal

    nowhere = await home.client.get("/api/detect", params={"cwd": "sub"})
    assert "is not an absolute path" in nowhere.json()["error"]["message"]
    await home.stop()


async def test_a_transcript_that_lies_in_no_account_is_adopted_by_its_path(
    home: Live, shop: Path, tmp_path: Path
) -> None:
    [transcript] = (tmp_path / "home" / ".codex").rglob("rollout-*.jsonl")
    copy = tmp_path / "from a colleague.jsonl"
    shutil.move(transcript, copy)
    await home.start()

    shown = await home.cli("detect", "show", copy.name, cwd=tmp_path)
    assert f"goal           {TASK}" in shown.stdout.decode(), shown.stderr
    assert f"transcript     {copy}" in shown.stdout.decode()

    relative = await home.client.get("/api/detect/transcript", params={"file": copy.name})
    assert relative.status_code == 400
    assert "is not absolute" in relative.json()["error"]["message"]

    answer = await adopted(home, str(copy))

    assert (answer["provider"], answer["goal"], answer["folder"]) == ("codex", TASK, str(shop))
    assert answer["nativeResume"] is False
    assert any("no account's folder" in note for note in answer["notes"])
    notes = tmp_path / "notes.txt"
    notes.write_text("not a transcript\n")
    assert "is no transcript" in error_of(await home.cli("detect", "--adopt", str(notes)))
    await home.stop()


async def test_what_cannot_be_taken_over_is_said_with_the_mend(home: Live, shop: Path) -> None:
    await home.start()
    assert "no agent session 'ffff'" in error_of(await home.cli("detect", "--adopt", "ffff"))
    assert "known: " in error_of(await home.cli("detect", "--adopt", "latest", "--target", "nobody"))
    shutil.move(shop, shop.with_name("elsewhere"))

    gone = error_of(await home.cli("detect", "--adopt", "latest"))

    assert str(shop) in gone
    assert "--folder" in gone
    missing = error_of(await home.cli("detect", "--adopt", "latest", "--folder", "nowhere", cwd=shop.parent))
    assert f"there is no folder {shop.with_name('nowhere')}" in missing
    relative = await home.client.post("/api/detect/adopt", json={"id": "latest", "folder": "elsewhere"})
    assert relative.status_code == 400
    assert "is not absolute" in relative.json()["error"]["message"]
    await home.stop()


async def test_work_whose_folder_was_moved_goes_on_there(home: Live, shop: Path) -> None:
    moved = shop.with_name("elsewhere")
    shutil.move(shop, moved)
    await home.start()

    ran = await home.cli(
        *("--json", "detect", "--adopt", "latest", "--folder", f"../{moved.parent.name}/{moved.name}"),
        *("--target", "scripted/one", "--start", "--detach"),
        cwd=moved.parent,
    )

    answer = json.loads(ran.stdout)
    assert answer["folder"] == str(moved)
    assert f"its folder is {moved}, not {shop}" in answer["notes"]
    await home.reach(answer["sessionId"], "COMPLETED")
    branch = home.git(moved, "ls-tree", "-r", "--name-only", f"relay/{answer['sessionId']}").split()
    assert {"README.md", "half.py", "finished.txt"} <= set(branch)
    assert not await trio.Path(shop).exists()
    await home.stop()


def without_folder(transcript: Path, cwd: Path, told: Path) -> None:
    """A Gemini CLI transcript that names its files below `told`, and no folder.

    Args:
        cwd: what it names now.
    """
    text = transcript.read_text().replace(f"**Workspace Directories:**\\n  - {cwd}", "")
    transcript.write_text(text.replace(str(cwd), str(told)))


@pytest.mark.parametrize("lies", ["in its store", "alone"])
@pytest.mark.parametrize("told", ["here", "on another machine"])
async def test_the_files_of_a_transcript_that_tells_no_folder_are_those_of_the_named_one(
    home: Live, tmp_path: Path, lies: str, told: str
) -> None:
    _, cwd = place("gemini/tool_edit", tmp_path)
    gemini = tmp_path / "home" / ".gemini"
    (cwd / "README.md").write_text("# demo edited\n")
    home.git(cwd, "init", "-q", "-b", "main")
    home.git(cwd, "add", "-A")
    home.git(cwd, "commit", "-q", "-m", "Begin")
    [transcript] = gemini.rglob("session-*.jsonl")
    before = cwd if told == "here" else Path("/home/colleague/demo")
    without_folder(transcript, cwd, before)
    for telling in (gemini / "projects.json", transcript.parent.parent / ".project_root"):
        telling.unlink()
    if lies == "alone":
        transcript = transcript.rename(tmp_path / transcript.name)
    await home.start()

    assert "--folder" in error_of(await home.cli("detect", "--adopt", str(transcript)))
    answer = await adopted(home, str(transcript), "--folder", str(cwd))

    brief = answer["markdown"]
    assert "- Wrote README.md" in brief
    assert str(before) not in brief
    moved = f"its folder is {cwd}, not {before}"
    assert (moved in answer["notes"]) == (before != cwd)
    await home.stop()


@pytest.mark.parametrize(
    ("recording", "reason"),
    [
        ("claude/limit_midway", "usage limit (code usage_limit_reached)"),
        ("claude/rate_limit_once", "its work is taken over"),
        ("claude/sigkill_tool", "it stopped in the middle of its turn"),
    ],
)
async def test_a_brief_says_why_the_agent_stopped(
    home: Live, tmp_path: Path, recording: str, reason: str
) -> None:
    _, cwd = place(recording, tmp_path)
    (cwd / "README.md").write_text("# The shop\n")
    home.git(cwd, "init", "-q", "-b", "main")
    home.git(cwd, "add", "-A")
    home.git(cwd, "commit", "-q", "-m", "Begin")
    await home.start()

    shown = await home.cli("detect", "--adopt", "latest", "--since-hours", "43000", "--dry-run")

    assert f"The agent before stopped because: {reason}." in shown.stdout.decode(), shown.stderr
    await home.stop()
