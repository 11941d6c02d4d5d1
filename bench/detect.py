"""Finding agents in 1 GB of sessions: `python bench/detect.py [megabytes]`.

Over all stores: cold (nothing remembered), warm, and after one session grew; time, and peak memory of all
processes. Over Claude Code's alone: beside reading the bytes, and beside tokscale and ccusage where they are
on the PATH or in the folder that BENCH_TOOLS names (npm install tokscale ccusage). Each in a process of its
own, by turns. Figures depend on the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from transcripts import make

COLD, WARM, MEMORY = 5.0, 0.2, 200.0
"""Budgets for 1 GB: seconds, seconds, megabytes."""
READ = """
import pathlib, sys
for path in pathlib.Path(sys.argv[1]).rglob("*.jsonl"):
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 20): pass
"""
PARSE = """
import orjson, pathlib, sys
for path in pathlib.Path(sys.argv[1]).rglob("*.jsonl"):
    with path.open("rb") as file:
        for line in file: orjson.loads(line)
"""


def measured(command: list[str], env: dict[str, str]) -> tuple[float, float, str]:
    """Seconds, peak megabytes of the process and its children, and what it printed."""
    peak = 0.0
    begun = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def watch() -> None:
        nonlocal peak
        own = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                family = [own, *own.children(recursive=True)]
                peak = max(peak, sum(_memory(each) for each in family))
            except psutil.Error:
                continue
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = process.communicate()
    seconds = time.perf_counter() - begun
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{command[0]} failed: {err.decode()[-500:]}")
    return seconds, peak / 1e6, out.decode()


def _memory(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss)
    except psutil.Error:
        return 0.0


def environment(home: Path) -> dict[str, str]:
    tools = os.environ.get("BENCH_TOOLS", "")
    return {
        "PATH": f"{tools}:{os.environ['PATH']}" if tools else os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "RELAY_STATE_DIR": str(home / "relay-state"),
        "RELAY_CONFIG_DIR": str(home / "relay-config"),
    }


def relay(home: Path) -> tuple[float, float, int]:
    """Seconds, megabytes, and how many sessions were listed."""
    command = [sys.executable, "-m", "relay", "detect", "--all", "--json"]
    seconds, memory, out = measured(command, environment(home))
    return seconds, memory, len(json.loads(out)["agents"])


def show(what: str, seconds: float, memory: float, note: str = "") -> None:
    print(f"{what:<34} {seconds:7.2f} s {memory:8.0f} MB  {note}")


def all_stores(home: Path, size: int) -> None:
    made = make(home, size)
    total = sum(made.values()) / 1e6
    print(f"{total:.0f} MB of sessions: {', '.join(f'{k} {v / 1e6:.0f}' for k, v in made.items())}")
    share = total / 1000
    seconds, memory, count = relay(home)
    show(
        "relay detect, cold",
        seconds,
        memory,
        f"{count} sessions; budget {COLD * share:.1f} s, {MEMORY:.0f} MB",
    )
    seconds, memory, _ = relay(home)
    show("relay detect, warm", seconds, memory, f"budget {WARM} s and the start of Python")
    grown = next(home.glob(".claude/projects/*/*.jsonl"))
    lines = grown.read_bytes().split(b"\n")
    with grown.open("ab") as file:
        file.write(b"\n".join(lines[-20:]))
    seconds, memory, _ = relay(home)
    show("relay detect, one session grown", seconds, memory)


def beside_others(home: Path, size: int) -> None:
    make(home, size, shares={"claude": 1.0})
    env = environment(home)
    rounds: list[tuple[str, Callable[[], tuple[float, float]]]] = [
        ("reading the bytes", lambda: measured([sys.executable, "-c", READ, str(home)], env)[:2]),
        ("orjson on every line", lambda: measured([sys.executable, "-c", PARSE, str(home)], env)[:2]),
        ("relay detect, cold", lambda: _fresh(home)),
    ]
    for name, words in (("tokscale", ["--json"]), ("ccusage", ["daily", "--json", "--offline"])):
        program = shutil.which(name, path=env["PATH"])
        if program is None:
            print(f"{name}: not installed, so left out")
            continue
        command = [program, *words]
        rounds.append((name, lambda command=command: measured(command, env)[:2]))  # type: ignore[misc]
    for what, run in rounds:
        try:
            show(f"claude alone: {what}", *run())
        except SystemExit as error:
            print(f"claude alone: {what}: {error}")


def _fresh(home: Path) -> tuple[float, float]:
    shutil.rmtree(home / "relay-state", ignore_errors=True)
    return relay(home)[:2]


def main() -> None:
    size = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 1_000_000_000
    for part in (all_stores, beside_others):
        with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
            part(Path(folder), size)


if __name__ == "__main__":
    main()
