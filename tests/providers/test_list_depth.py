"""What a list tells of a session is what a full reading tells, however odd or damaged the transcript is."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relay.core.events import PlanItem, TaskStatus
from relay.core.intel import Depth
from relay.evaluation.scripts import EditedFile, Planned, RanCommand, ReadFile, Said, Step, Summarised, Told
from relay.evaluation.writers import WRITERS
from relay.providers.stores import store_named
from tests.fakes.lifting import lifted, machine, told
from tests.fakes.stores import place, recordings

LINES = ("claude", "codex", "gemini", "qwen", "copilot")
"""Stores of JSON lines."""
WORDS = ("Read it.", ' a "quoted" word }]}}', "größer\nthan", "   ", "\u2028x", 'ends in "}]}}')
Variant = Callable[[random.Random, list[bytes]], Iterator[bytes]]


def steps(rng: random.Random, turns: int) -> Iterator[Step]:
    """A session with everything in it, in an order that the numbers decide."""
    yield Said("Add a refund flow. Never touch the ledger.")
    for number in range(turns):
        path = f"src/m{rng.randrange(6)}.py"
        match rng.randrange(9):
            case 0:
                yield Told(
                    rng.choice(["Read it.", ' a "quoted" word }]}}', "größer\nthan", "   ", "\u2028x"])
                )
            case 1:
                yield ReadFile(path, 'def "x"(): pass\n' * rng.randrange(200))
            case 2:
                yield RanCommand("pytest -q", rng.randrange(2), 'out {"type":"x"}' * rng.randrange(9))
            case 3:
                yield EditedFile(path, before="a", after='say("b")\n')
            case 4:
                yield EditedFile(path, fails="String not found")
            case 5:
                yield EditedFile(rng.choice(["/etc/pässwd", 'src/"odd".py', "src\\x.py"]))
            case 6:
                done = [TaskStatus.COMPLETED if n < number % 4 else TaskStatus.PENDING for n in range(4)]
                yield Planned(tuple(PlanItem(text=f"Step {n}", status=each) for n, each in enumerate(done)))
            case 7:
                yield Said(f"Go on with part {number}")
            case _:
                yield Summarised("a.py is done")
    if rng.random() < 0.6:
        yield Told("Done so far. Next: the tests")


def plain(rng: random.Random, lines: list[bytes]) -> Iterator[bytes]:
    yield from lines


def spaced(rng: random.Random, lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield json.dumps(json.loads(line), separators=(" , ", " : ")).encode()


def spaced_here_and_there(rng: random.Random, lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield json.dumps(json.loads(line)).encode() if rng.random() < 0.5 else line


def in_another_order(rng: random.Random, lines: list[bytes]) -> Iterator[bytes]:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(each) for each in value] if isinstance(value, list) else value

    for line in lines:
        yield json.dumps(turned(json.loads(line)), separators=(",", ":"), ensure_ascii=False).encode()


def shuffled(rng: random.Random, lines: list[bytes]) -> Iterator[bytes]:
    def mixed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: mixed(value[key]) for key in rng.sample(list(value), len(value))}
        return [mixed(each) for each in value] if isinstance(value, list) else value

    for line in lines:
        told_so = mixed(json.loads(line)) if rng.random() < 0.3 else json.loads(line)
        yield json.dumps(told_so, separators=(",", ":"), ensure_ascii=False).encode()


def escaped(rng: random.Random, lines: list[bytes]) -> Iterator[bytes]:
    """Keys and words are spelled with escapes."""
    for line in lines:
        for word in (b"type", b"text", b"tool_use", b"name", b"error", b"success"):
            if rng.random() < 0.3:
                line = line.replace(b'"%s"' % word, b'"\\u%04x%s"' % (word[0], word[1:]))
        yield line


def doubled(rng: random.Random, lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield from [line] * (2 if rng.random() < 0.3 else 1)


def told_again_later(rng: random.Random, lines: list[bytes]) -> Iterator[bytes]:
    """As when a session is copied into its own file once more."""
    yield from lines
    yield from lines[len(lines) // 2 :]


def damaged(rng: random.Random, lines: list[bytes]) -> Iterator[bytes]:
    held = b""
    for line in lines:
        at = rng.randrange(len(line)) if line else 0
        match rng.randrange(16):
            case 0:
                yield held + line[:at]
            case 1:
                yield held + line[:at] + b"\0" * 40
            case 2:
                yield held + b"\0" * 300 + line
            case 3:
                yield held + line[:at] + rng.randbytes(5).replace(b"\n", b"?")
            case 4:
                held = held + line[:at]
                continue
            case 5:
                # Cut behind a brace, where it may look whole.
                yield held + line[: line.rfind(b"}", 0, at) + 1]
            case 6:
                yield held + line + b"\r"
            case _:
                yield held + line
        held = b""


VARIANTS: tuple[Variant, ...] = (
    plain,
    spaced,
    spaced_here_and_there,
    in_another_order,
    shuffled,
    escaped,
    doubled,
    told_again_later,
    damaged,
)


def change(home: Path, variant: Variant, rng: random.Random, *, torn: bool) -> None:
    """Every transcript below, rewritten."""
    for path in sorted(home.rglob("*.jsonl")):
        lines = list(variant(rng, path.read_bytes().rstrip(b"\n").split(b"\n")))
        data = b"\n".join(lines) + b"\n"
        path.write_bytes(data[: -rng.randrange(2, 60)] if torn else data)


def assert_alike(store_name: str, home: Path) -> None:
    store, where = store_named(store_name), machine(home)

    full, listed = (lifted(store, where, depth) for depth in (Depth.FULL, Depth.LIST))

    assert full
    assert list(map(told, listed)) == list(map(told, full))


def generate(store_name: str, home: Path, seed: int) -> None:
    rng = random.Random(seed)
    writer = WRITERS[store_name](home, "/w/app", f"session-{seed}")
    writer.write(steps(rng, rng.choice((3, 30, 120))))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("store_name", LINES)
def test_generated_lines(store_name: str, variant: Variant, seed: int, tmp_path: Path) -> None:
    generate(store_name, tmp_path, seed)
    change(tmp_path, variant, random.Random(seed), torn=seed % 2 == 1)

    assert_alike(store_name, tmp_path)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("store_name", LINES)
def test_recorded_lines(store_name: str, variant: Variant, tmp_path: Path) -> None:
    for number, name in enumerate(sorted(recordings(store_name))):
        home, _ = place(f"{store_name}/{name}", tmp_path / str(number))
        change(home, variant, random.Random(number), torn=False)
        if lifted(store_named(store_name), machine(home), Depth.LIST):
            assert_alike(store_name, home)


def change_rows(home: Path, variant: Variant, rng: random.Random) -> None:
    """The data of every row below, rewritten; what a variant makes several of is one."""
    for path in home.rglob("opencode*.db"):
        with sqlite3.connect(path) as database:
            for table in ("message", "part"):
                for row, data in database.execute(f"SELECT rowid, data FROM {table}").fetchall():
                    new = next(variant(rng, [data.encode()]), b"{")
                    values = (new.decode("utf-8", "replace"), row)
                    database.execute(f"UPDATE {table} SET data = ? WHERE rowid = ?", values)
        database.close()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("variant", VARIANTS)
def test_generated_rows(variant: Variant, seed: int, tmp_path: Path) -> None:
    generate("opencode", tmp_path, seed)
    change_rows(tmp_path, variant, random.Random(seed))

    assert_alike("opencode", tmp_path)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", sorted(recordings("opencode")))
def test_recorded_rows(name: str, variant: Variant, tmp_path: Path) -> None:
    home, _ = place(f"opencode/{name}", tmp_path)
    change_rows(home, variant, random.Random(name))

    assert_alike("opencode", home)
