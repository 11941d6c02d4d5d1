"""The agent started, followed and ended as Relay does it: FIFO in, spool files out."""

from __future__ import annotations

from pathlib import Path

import trio

from relay.effects import stdin, stop
from relay.providers.scripted import Scripted
from tests.fakes.runs import Run, a_run
from tests.fakes.scenarios import file_of, request, scenario


async def _started(run: Run, home: Path, *steps: object) -> None:
    asked = request(file_of(home, scenario(*steps)), run.cwd)
    spec = Scripted().launch(asked)
    await run.start(*spec.argv, two_way=spec.two_way, env=dict(spec.env))
    await stdin.write(run.fifo, run.folder, Scripted().dialogue(asked).open())


async def test_a_turn_comes_through_the_spool_and_the_end_of_input_ends_it(tmp_path: Path) -> None:
    async with a_run(tmp_path) as run, trio.open_nursery() as nursery:
        await _started(run, tmp_path, {"say": "hello"})
        nursery.start_soon(run.follow)
        await run.until(lambda: any('"turn_ended"' in text for text in run.texts()))
        ended = await stop.end(run.folder, run.marker, Scripted().stop_steps, input_grace=20.0)
        assert (ended.how, ended.status, ended.left) == ("input", 0, ())


async def test_a_hanging_turn_is_ended_by_term_with_what_it_left_running(tmp_path: Path) -> None:
    stubborn = {"command": "while :; do sleep 600; done", "ignore_term": True, "new_session": True}
    async with a_run(tmp_path) as run, trio.open_nursery() as nursery:
        await _started(run, tmp_path, {"spawn": stubborn}, {"say": "left behind"}, "hang")
        nursery.start_soon(run.follow)
        await run.until(lambda: any("left behind" in text for text in run.texts()))
        ended = await stop.end(run.folder, run.marker, Scripted().stop_steps, term_grace=0.1)
        assert (ended.how, ended.status, ended.left) == ("TERM", 143, ())
        assert ended.killed
