from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from relay.effects.stdin import close_stdin, write
from relay.providers.protocol import Write
from tests.fakes.runs import Run, a_run, python


def receipt(line: str) -> str:
    data = line.encode() + b"\n"
    return f"got {len(data)} {hashlib.sha256(data).hexdigest()[:8]}"


def lines(*texts: str) -> list[Write]:
    return [Write(key=f"k{number}", line=text) for number, text in enumerate(texts)]


async def finish(run: Run) -> list[str]:
    await close_stdin(run.folder)
    with trio.fail_after(30):
        await run.follow()
    return run.texts()


async def test_lines_arrive_whole_and_in_order(tmp_path: Path) -> None:
    texts = ["short", "x" * 200_000, "ä" * 3_000_000, "line\u2028with a separator", ""]
    async with a_run(tmp_path) as run:
        await run.start(*python("echo"), two_way=True)
        written = await write(run.fifo, run.folder, lines(*texts))
        assert (written.keys, written.lost) == (("k0", "k1", "k2", "k3", "k4"), "")
        assert await finish(run) == ["ready", *map(receipt, texts), "end of input"]


async def test_an_end_of_input_comes_only_on_purpose(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await run.start(*python("echo"), two_way=True)
        for number in range(3):
            await write(run.fifo, run.folder, [Write(key=str(number), line="x")])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.follow)
            await run.until(lambda: len(run.texts()) == 4)
            assert not run.folder.ended()
            assert await close_stdin(run.folder)
        assert run.folder.status() == 7
        assert not await close_stdin(run.folder)


async def test_a_line_is_sent_once(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await run.start(*python("echo"), two_way=True)
        first = await write(run.fifo, run.folder, lines("a", "b"))
        again = await write(run.fifo, run.folder, lines("a", "b", "c"))
        assert first.keys == ("k0", "k1")
        assert again.keys == ("k0", "k1", "k2")
        assert await finish(run) == ["ready", receipt("a"), receipt("b"), receipt("c"), "end of input"]


async def test_many_writers_do_not_mix_their_lines(tmp_path: Path) -> None:
    texts = [str(number) * 100_000 for number in range(8)]
    async with a_run(tmp_path) as run:
        await run.start(*python("echo"), two_way=True)
        async with trio.open_nursery() as nursery:
            for number, text in enumerate(texts):
                nursery.start_soon(write, run.fifo, run.folder, [Write(key=str(number), line=text)])
        assert sorted((await finish(run))[1:-1]) == sorted(map(receipt, texts))


async def test_a_child_that_has_ended_takes_nothing(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await run.start("true", two_way=True)
        await run.follow()
        written = await write(run.fifo, run.folder, lines("a"))
        assert (written.keys, written.lost) == ((), "the child has ended")
        run.fifo.unlink()
        assert (await write(run.fifo, run.folder, lines("a"))).lost == "the child has ended"


async def test_a_child_that_closed_its_input_takes_nothing(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await run.start("sh", "-c", "exec <&-; echo closed; exec sleep 1000", two_way=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run.follow)
            await run.until(lambda: run.texts() == ["closed"])
            written = await write(run.fifo, run.folder, lines("a"))
            nursery.cancel_scope.cancel()
        assert (written.keys, written.lost) == ((), "the child no longer reads its input")


async def a_stopped_reader(run: Run) -> int:
    """Start a child that is ready to read, and stop it; its pid."""
    await run.start(*python("echo"), two_way=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.follow)
        await run.until(lambda: run.texts() == ["ready"])
        nursery.cancel_scope.cancel()
    run.chunks.clear()
    cli = run.folder.cli_pid()
    assert cli is not None
    os.kill(cli, signal.SIGSTOP)
    return cli


async def test_a_child_that_does_not_read_is_given_up_and_goes_on_later(tmp_path: Path) -> None:
    texts = ["first", "x" * 3_000_000, "last"]
    async with a_run(tmp_path) as run:
        cli = await a_stopped_reader(run)
        written = await write(run.fifo, run.folder, lines(*texts), patience=0.05)
        assert written.keys == ("k0",)
        assert "nothing was taken" in written.lost
        os.kill(cli, signal.SIGCONT)
        # The torn line is finished before anything else, so that the child never sees half a line.
        assert (await write(run.fifo, run.folder, lines(*texts))).lost == ""
        assert await finish(run) == ["ready", *map(receipt, texts), "end of input"]


async def test_a_cancelled_write_tears_no_line(tmp_path: Path) -> None:
    big = "x" * 3_000_000
    async with a_run(tmp_path) as run:
        cli = await a_stopped_reader(run)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, run.fifo, run.folder, lines(big, "never"))
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
            os.kill(cli, signal.SIGCONT)
        await write(run.fifo, run.folder, [Write(key="next", line="next")])
        assert await finish(run) == ["ready", receipt(big), receipt("next"), "end of input"]


@pytest.mark.parametrize("two_way", [False, True])
async def test_closing_the_input_of_a_dead_run_is_nothing(tmp_path: Path, two_way: bool) -> None:
    async with a_run(tmp_path) as run:
        assert not await close_stdin(run.folder)
        await run.start("true", two_way=two_way)
        await run.follow()
        assert not await close_stdin(run.folder)


async def test_only_the_holder_is_ended_by_an_end_of_input(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run:
        await run.start(*python("echo"), two_way=True)
        stranger = await trio.lowlevel.open_process(["sleep", "1000"])
        try:
            await write(run.fifo, run.folder, lines("a"))
            holder = run.folder.holder_pid()
            run.folder.file("holder").write_text(f"{stranger.pid}\n")
            assert not await close_stdin(run.folder)
            assert stranger.poll() is None
            run.folder.file("holder").write_text(f"{holder}\n")
        finally:
            stranger.kill()
            await stranger.wait()
