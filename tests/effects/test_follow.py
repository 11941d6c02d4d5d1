from __future__ import annotations

import os
import signal
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from relay.core.framing import Line
from relay.effects.follow import TURN, OutputChunk, RunEnded, follow
from relay.effects.spool import Offsets, RunFolder
from relay.effects.stdin import close_stdin, write
from relay.effects.watch import Watch
from relay.errors import StoreError
from relay.providers.protocol import Write
from tests.fakes.runs import Run, a_run, python


@asynccontextmanager
async def a_watch(wanted: bool) -> AsyncIterator[Watch | None]:
    if not wanted:
        yield None
        return
    async with trio.open_nursery() as nursery:
        yield await nursery.start(Watch().run)
        nursery.cancel_scope.cancel()


both_ways = pytest.mark.parametrize("watched", [True, False], ids=["inotify", "polling"])


def ended_run(tmp_path: Path, out: bytes, err: bytes = b"", status: str = "0\n") -> RunFolder:
    folder = RunFolder(tmp_path)
    for name, data in (("out", out), ("err", err), ("exit", status.encode())):
        folder.file(name).write_bytes(data)
    return folder


async def collect(folder: RunFolder, from_out: int = 0, **options: int) -> list[OutputChunk]:
    chunks: list[OutputChunk] = []

    async def deliver(chunk: OutputChunk) -> None:
        chunks.append(chunk)

    await follow(folder, from_out=from_out, from_err=0, deliver=deliver, **options)
    return chunks


@both_ways
async def test_lines_are_delivered_while_the_child_runs(tmp_path: Path, watched: bool) -> None:
    async with a_run(tmp_path) as run, a_watch(watched) as watch:
        await run.start(*python("count"), two_way=True)
        ends: list[RunEnded] = []

        async def following() -> None:
            ends.append(await run.follow(watch=watch))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(following)
            for number in range(1, 4):
                await write(run.fifo, run.folder, [Write(key=str(number), line="")])
                await run.until(lambda want=number: len(run.texts()) == want)  # type: ignore[misc]
            assert ends == []
            await close_stdin(run.folder)
        assert ends == [RunEnded(status=0)]
        assert run.texts() == ["1", "2", "3"]


@both_ways
async def test_following_on_after_a_restart_gives_exactly_the_remaining_lines(
    tmp_path: Path, watched: bool
) -> None:
    async with a_run(tmp_path) as run, a_watch(watched) as watch:
        await run.start(*python("count"), two_way=True)
        keys = [Write(key=str(number), line="") for number in range(100)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.follow, 0, 0, watch)
            await write(run.fifo, run.folder, keys[:50])
            await run.until(lambda: len(run.texts()) >= 10)
            nursery.cancel_scope.cancel()
        before, offset = run.texts(), run.chunks[-1].offset_after
        await write(run.fifo, run.folder, keys[50:])
        run.chunks.clear()
        await close_stdin(run.folder)
        await run.follow(offset, watch=watch)
        assert before + run.texts() == [str(number) for number in range(1, 101)]


async def test_what_agents_print_arrives_unharmed(tmp_path: Path) -> None:
    literals = (
        r"b'{\"a\": 1}\r\n'",
        r"b'half a \xc3'",
        r"b'\xa9 character\n\n'",
        r"b'\xff\x00 broken\n'",
        r"b'\xe2\x80\xa8 separator\n'",
        r"2:b'warning\r\nno newline'",
        r"b'no newline either'",
    )
    async with a_run(tmp_path) as run:
        await run.start(*python("say", *literals))
        assert await run.follow() == RunEnded(status=3)
        assert [line.data for line in run.lines()] == [
            b'{"a": 1}',
            "half a é character".encode(),
            b"",
            b"\xff\x00 broken",
            "\u2028 separator".encode(),
            b"no newline either",
        ]
        assert run.texts("err") == ["warning", "no newline"]
        assert run.chunks[-1].offset_after in (run.folder.size("out"), run.folder.size("err"))


@both_ways
async def test_a_flood_on_both_streams_is_delivered_in_turns(tmp_path: Path, watched: bool) -> None:
    async with a_run(tmp_path) as run, a_watch(watched) as watch:
        await run.start(*python("flood", "4", "16"))
        assert (await run.follow(watch=watch)).status == 0
        assert len(run.lines("out")) == 4 * 8192
        assert len(run.lines("err")) == 16 * 8192
        assert max(sum(len(line.data) + 1 for line in chunk.lines) for chunk in run.chunks) <= TURN + 128
        first_out = next(number for number, chunk in enumerate(run.chunks) if chunk.stream == "out")
        assert first_out <= 1


async def test_a_slow_receiver_holds_up_the_reading(tmp_path: Path) -> None:
    folder = ended_run(tmp_path, (b"x" * 99 + b"\n") * 10_000)
    gate = trio.Semaphore(0)
    chunks: list[OutputChunk] = []

    async def deliver(chunk: OutputChunk) -> None:
        chunks.append(chunk)
        await gate.acquire()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: follow(folder, from_out=0, from_err=0, deliver=deliver))
        await wait_all_tasks_blocked()
        assert len(chunks) == 1
        gate.release()
        await wait_all_tasks_blocked()
        assert len(chunks) == 2
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("content", "limit"),
    [
        pytest.param((b"x" * 63 + b"\n") * 250_000, 1 << 20, id="16 MB in small lines"),
        pytest.param(b"x" * 32_000_000 + b"\nend\n", 1 << 20, id="one endless line"),
    ],
)
async def test_memory_stays_bounded(tmp_path: Path, content: bytes, limit: int) -> None:
    folder = ended_run(tmp_path, content)
    count = 0

    async def deliver(chunk: OutputChunk) -> None:
        nonlocal count
        count += len(chunk.lines)

    tracemalloc.start()
    await follow(folder, from_out=0, from_err=0, deliver=deliver, limit=limit)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == content.count(b"\n")
    assert peak < 6_000_000


async def test_a_line_of_32_mib_arrives_whole_and_a_longer_one_is_cut(tmp_path: Path) -> None:
    full = 32 * 1024 * 1024
    folder = ended_run(tmp_path, b"a" * full + b"\n" + b"b" * (full + 5) + b"\nlast\n")
    lines = [line for chunk in await collect(folder) for line in chunk.lines]
    assert [(len(line.data), line.cut, line.end) for line in lines] == [
        (full, False, full + 1),
        (full, True, 2 * full + 7),
        (4, False, 2 * full + 12),
    ]


@both_ways
async def test_a_run_killed_with_its_shim_ends_without_a_status(tmp_path: Path, watched: bool) -> None:
    async with a_run(tmp_path) as run, a_watch(watched) as watch:
        started = await run.start("sh", "-c", "echo up; exec sleep 1000")
        ends: list[RunEnded] = []

        async def following() -> None:
            ends.append(await run.follow(watch=watch))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(following)
            await run.until(lambda: run.texts() == ["up"])
            os.killpg(started.pid, signal.SIGKILL)
        assert ends == [RunEnded(status=None)]


@both_ways
async def test_a_cli_that_lost_its_shim_is_followed_until_it_dies(tmp_path: Path, watched: bool) -> None:
    async with a_run(tmp_path) as run, a_watch(watched) as watch:
        started = await run.start(*python("count"), two_way=True)
        ends: list[RunEnded] = []

        async def following() -> None:
            ends.append(await run.follow(watch=watch))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(following)
            await write(run.fifo, run.folder, [Write(key="1", line="")])
            await run.until(lambda: run.texts() == ["1"])
            os.kill(started.pid, signal.SIGKILL)
            await write(run.fifo, run.folder, [Write(key="2", line="")])
            await run.until(lambda: run.texts() == ["1", "2"])
            assert ends == []
            cli = run.folder.cli_pid()
            assert cli is not None
            os.kill(cli, signal.SIGKILL)
        assert ends == [RunEnded(status=None)]


async def test_a_survivor_that_keeps_printing_does_not_hold_the_end_up(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await run.start("sh", "-c", "while sleep 0.001; do echo x; done & echo done >&2; exit 4")
        with trio.fail_after(30):
            assert await run.follow() == RunEnded(status=4)
        assert run.texts("err") == ["done"]


async def test_a_recorded_pid_that_now_names_another_process_is_not_the_run(tmp_path: Path) -> None:
    folder = ended_run(tmp_path, b"left\n")
    folder.file("exit").unlink()
    folder.file("pid.json").write_text(f'{{"pid": {os.getpid()}, "start": "another boot:1"}}')
    chunks: list[OutputChunk] = []

    async def deliver(chunk: OutputChunk) -> None:
        chunks.append(chunk)

    with trio.fail_after(30):
        assert await follow(folder, from_out=0, from_err=0, deliver=deliver) == RunEnded(status=None)
    assert [chunk.lines for chunk in chunks] == [(Line(data=b"left", end=5),)]


async def test_a_sealed_run_is_not_read_again(tmp_path: Path) -> None:
    folder = ended_run(tmp_path, b"rewritten\n", status="9\n")
    folder.note_offsets(Offsets(out=3, err=0, sealed=True))
    assert await collect(folder) == []


async def test_missing_files_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="out"):
        await collect(RunFolder(tmp_path))


async def test_an_error_of_the_receiver_comes_through(tmp_path: Path) -> None:
    folder = ended_run(tmp_path, b"a\n")

    async def deliver(chunk: OutputChunk) -> None:
        raise OSError("the receiver's own")

    with pytest.raises(OSError, match="the receiver's own"):
        await follow(folder, from_out=0, from_err=0, deliver=deliver)


async def test_one_watch_serves_many_runs(tmp_path: Path) -> None:
    async with a_watch(True) as watch, trio.open_nursery() as nursery:
        runs: list[Run] = []

        async def one(number: int) -> None:
            home = tmp_path / str(number)
            home.mkdir()
            async with a_run(home) as run:
                runs.append(run)
                await run.start("sh", "-c", f"echo {number}; exit {number}")
                assert (await run.follow(watch=watch)).status == number
                assert run.texts() == [str(number)]

        for number in range(12):
            nursery.start_soon(one, number)
    assert len(runs) == 12


async def test_followers_do_not_leave_watches_or_tasks_behind(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run, a_watch(True) as watch:
        assert watch is not None
        await run.start("sleep", "1000")
        before = open_files()
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: run.follow(watch=watch))
                await wait_all_tasks_blocked()
                assert open_files() > before
                nursery.cancel_scope.cancel()
        await wait_all_tasks_blocked()
        assert open_files() == before


def open_files() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())
