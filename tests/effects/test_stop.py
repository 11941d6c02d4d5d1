from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest
import trio

from relay.effects import processes, stop
from relay.effects.processes import Found, Identity
from relay.effects.spool import RunFolder
from relay.providers.protocol import StopStep
from tests.fakes.runs import Run, a_run, python

INT = StopStep(signal="INT", group=False, grace=10)
TERM = StopStep(signal="TERM", group=True, grace=10)
SHORT_INT = StopStep(signal="INT", group=False, grace=0.1)
SHORT_TERM = StopStep(signal="TERM", group=True, grace=0.1)


async def start(run: Run, *argv: str, last_line: str, two_way: bool = True) -> list[int]:
    """Start a run and wait until it is up; the pids that it printed."""
    await run.start(*argv, two_way=two_way)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.follow)
        await run.until(lambda: last_line in run.texts())
        nursery.cancel_scope.cancel()
    return [int(text) for text in run.texts() if text.isdigit()]


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if processes.identity(pid) is not None]


@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize(
    ("ignored", "steps", "want_how", "want_status"),
    [
        ([], (INT, TERM), "INT", 130),
        (["INT"], (SHORT_INT, TERM), "TERM", 143),
        (["INT", "TERM"], (SHORT_INT, SHORT_TERM), "KILL", 137),
        ([], (), "KILL", 137),
        ([], (StopStep(signal="KILL", group=True, grace=10),), "KILL", 137),
        (["INT"], (StopStep(signal="INT", group=True, grace=0.1), TERM), "TERM", 143),
    ],
)
async def test_a_child_is_ended_step_by_step_and_its_status_kept(
    tmp_path: Path,
    two_way: bool,
    ignored: list[str],
    steps: tuple[StopStep, ...],
    want_how: str,
    want_status: int,
) -> None:
    async with a_run(tmp_path) as run:
        if ignored:
            await start(run, *python("stubborn", *ignored), last_line="ready", two_way=two_way)
        else:
            await start(run, "sh", "-c", "echo ready; exec sleep 1000", last_line="ready", two_way=two_way)
        ended = await stop.end(run.folder, run.marker, steps)
        assert ended == stop.Ended(how=want_how, status=want_status)
        assert await run.alive() == []
        assert not run.fifo.exists()


async def test_an_end_of_input_is_tried_first_when_it_may_do(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await start(run, *python("echo"), last_line="ready")
        ended = await stop.end(run.folder, run.marker, (INT,), input_grace=10)
        assert ended == stop.Ended(how="input", status=7)
    async with a_run(tmp_path / "two") as run:
        await start(run, *python("stubborn", "HUP"), last_line="ready")
        ended = await stop.end(run.folder, run.marker, (TERM,), input_grace=0.05)
        assert ended == stop.Ended(how="TERM", status=143)


KINDS = [
    "plain",
    "session",
    "stubborn",
    "session+stubborn",
    "session+stubborn+nameless",
    "stubborn+twice",
    "session+stubborn+twice",
    "nameless+stubborn+twice",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [(TERM,), ()], ids=["TERM", "KILL"])
async def test_no_grandchild_is_left_of_a_run_that_is_ended(
    tmp_path: Path, kind: str, steps: tuple[StopStep, ...]
) -> None:
    async with a_run(tmp_path) as run:
        grandchildren = await start(run, *python("parent", kind), last_line="all started")
        assert alive(grandchildren) == grandchildren
        ended = await stop.end(run.folder, run.marker, steps, term_grace=0.1)
        assert alive(grandchildren) == []
        assert ended.left == ()
        assert ended.how == (steps[0].signal if steps else "KILL")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "session+stubborn+nameless"])
@pytest.mark.parametrize("reaped", [False, True], ids=["own shim", "shim reaped by another"])
async def test_no_grandchild_is_left_of_a_run_that_ended_by_itself(
    tmp_path: Path, kind: str, reaped: bool
) -> None:
    async with a_run(tmp_path) as run:
        await run.start(*python("parent", "--end", kind), two_way=True)
        assert (await run.follow()).status == 0
        grandchildren = [int(text) for text in run.texts() if text.isdigit()]
        assert alive(grandchildren) == grandchildren
        if reaped:
            shim = run.folder.shim()
            assert shim is not None
            await processes.gone(shim)
            processes.reap(shim.pid)
            assert not psutil.pid_exists(shim.pid)
        ended = await stop.end(run.folder, run.marker, (TERM,), term_grace=0.1)
        assert ended == stop.Ended(how="ended", status=0, killed=tuple(grandchildren))
        assert alive(grandchildren) == []


async def test_ending_twice_is_ending_once(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await start(run, *python("stubborn", "HUP"), last_line="ready")
        first = await stop.end(run.folder, run.marker, (TERM,))
        again = await stop.end(run.folder, run.marker, (TERM,))
        assert (first.how, again) == ("TERM", stop.Ended(how="ended", status=143))


async def test_many_runs_are_ended_at_once(tmp_path: Path) -> None:
    ends: list[stop.Ended] = []

    async def one(number: int) -> None:
        async with a_run(tmp_path / str(number)) as run:
            await run.start("sleep", "1000", two_way=True)
            ends.append(await stop.end(run.folder, run.marker, (INT,)))

    async with trio.open_nursery() as nursery:
        for number in range(12):
            nursery.start_soon(one, number)
    assert ends == [stop.Ended(how="INT", status=130)] * 12


async def test_ending_what_never_was_is_nothing(tmp_path: Path) -> None:
    ended = await stop.end(RunFolder(tmp_path / "run-1"), "relay-test-never", (TERM,))
    assert ended == stop.Ended(how="ended", status=None)


async def test_a_run_is_ended_right_after_its_start(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await run.start("sleep", "1000", two_way=True)
        ended = await stop.end(run.folder, run.marker, (INT,))
        assert (ended.how, ended.status, ended.left) == ("INT", 130, ())


async def test_a_cli_that_lost_its_shim_is_ended(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await start(run, "sh", "-c", "echo ready; exec sleep 1000", last_line="ready")
        shim = run.folder.shim()
        assert shim is not None
        os.kill(shim.pid, signal.SIGKILL)
        ended = await stop.end(run.folder, run.marker, (TERM,), term_grace=0.1)
        assert (ended.how, ended.status, ended.left) == ("TERM", None, ())


async def test_a_stopped_cli_is_ended(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        started = await run.start("sleep", "1000", two_way=True)
        await processes.until(lambda: run.folder.cli_pid() is not None, 10)
        os.killpg(started.pid, signal.SIGSTOP)
        assert await stop.end(run.folder, run.marker, (TERM,)) == stop.Ended(how="TERM", status=143)


async def test_a_recorded_pid_that_now_names_another_process_is_spared(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await run.start("true", two_way=True)
        await run.follow()
        stranger = await trio.lowlevel.open_process(["sleep", "1000"], start_new_session=True)
        try:
            run.folder.note_shim(Identity(pid=stranger.pid, start="long ago"), 0.0)
            run.folder.file("cli").write_text(f"{stranger.pid}\n")
            ended = await stop.end(run.folder, run.marker, (INT, TERM))
            assert ended == stop.Ended(how="ended", status=0)
            assert stranger.poll() is None
        finally:
            stranger.kill()
            await stranger.wait()


async def test_no_zombie_is_left(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        started = await run.start("true")
        await run.follow()
        await stop.end(run.folder, run.marker, ())
        assert not psutil.pid_exists(started.pid)
        assert started.pid not in processes.adopted()


async def test_the_sweep_at_the_start_ends_what_is_not_kept(tmp_path: Path) -> None:
    async with a_run(tmp_path / "one") as stale, a_run(tmp_path / "two") as kept:
        await stale.start("sleep", "1000")
        await kept.start("sleep", "1000")
        ended = await stop.sweep("relay-test-", keep={kept.marker}, term_grace=0.1)
        assert len(ended.killed) >= 2
        assert await stale.alive() == []
        assert len(await kept.alive()) == 2


def found(
    pid: int, *, parent: int = 1, session: int = 1, marker: str = "", start: str = "s", dead: bool = False
):  # type: ignore[no-untyped-def]
    return Found(
        who=Identity(pid=pid, start=start),
        parent=parent,
        group=session,
        session=session,
        marker=marker,
        dead=dead,
    )


SHIM = Identity(pid=10, start="s")


@pytest.mark.parametrize(
    ("everyone", "want"),
    [
        pytest.param([found(20, marker="m"), found(21, marker="other")], [20], id="by the marker"),
        pytest.param([found(20, marker="m", dead=True)], [], id="a zombie is dead"),
        pytest.param([found(10, session=10), found(20, session=10)], [10, 20], id="by the session"),
        pytest.param(
            [found(10, session=10, dead=True), found(20, session=10)], [20], id="of a zombie's session"
        ),
        pytest.param(
            [found(10, session=10, start="later"), found(20, session=10)], [], id="another's session"
        ),
        pytest.param([found(20, session=10)], [], id="a session whose leader ended unseen"),
        pytest.param(
            [found(20, marker="m"), found(21, parent=20), found(22, parent=21), found(23, parent=9)],
            [20, 21, 22],
            id="descendants",
        ),
        pytest.param([found(30, start="known"), found(31, parent=30)], [30, 31], id="known before"),
        pytest.param([found(30, start="reused")], [], id="a known pid given to another"),
    ],
)
def test_who_belongs_to_a_run(everyone: list[Found], want: list[int]) -> None:
    family = processes.family(
        everyone, marker="m", shim=SHIM, known=[Identity(pid=30, start="known")], ended_at=None
    )
    assert sorted(member.who.pid for member in family) == want
