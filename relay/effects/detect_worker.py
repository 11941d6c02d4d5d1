"""Reads sessions for a list in a process of its own, so that much to read holds nobody up.

`Workers` is used by the engine of detection; `python -m relay.effects.detect_worker` is the
worker: a JSON line in for each session, a JSON line out for each that was read.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import attrs
import orjson

from relay.core.intel import Depth, SessionIntel
from relay.effects.detect_cache import from_stored, listed, to_stored
from relay.effects.store_files import DiskFiles
from relay.providers.store_protocol import Found
from relay.providers.stores import store_named

Reading = tuple[SessionIntel | None, str]
"""What was read, and what went wrong if something did."""
_MOST = 4


class Workers:
    """Workers that have begun to start; to be closed.

    They start while the caller still finds out what is to be read.
    """

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for _ in range(max(1, min(_MOST, os.cpu_count() or 1))):
                # -P: nothing of the folder that we may stand in can be imported in Relay's place.
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-P", "-m", "relay.effects.detect_worker"],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL,
                    )
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, sessions: Sequence[Found]) -> dict[int, Reading]:
        """Number in `sessions` -> what was read of it; may be asked once.

        A worker that dies leaves out what it had not read.
        """
        count = len(self._processes)
        shares: list[list[int]] = [[] for _ in range(count)]
        loads = [0] * count
        for number in sorted(range(len(sessions)), key=lambda n: sessions[n].size, reverse=True):
            least = loads.index(min(loads))
            shares[least].append(number)
            loads[least] += sessions[number].size
        with ThreadPoolExecutor(count) as pool:
            results = pool.map(
                lambda worker, share: _ask(worker, share, [sessions[n] for n in share]),
                self._processes,
                shares,
            )
            return {number: reading for share in results for number, reading in share.items()}

    def close(self) -> None:
        """End those that were not asked anything, and reap them all."""
        for worker in self._processes:
            for pipe in (worker.stdin, worker.stdout):
                if pipe is not None:
                    pipe.close()
            worker.wait()


def _ask(
    worker: subprocess.Popen[bytes], numbers: Sequence[int], sessions: Sequence[Found]
) -> dict[int, Reading]:
    asked = b"".join(
        orjson.dumps({"n": number, "found": attrs.asdict(found)}) + b"\n"
        for number, found in zip(numbers, sessions, strict=True)
    )
    answered, _ = worker.communicate(asked)
    readings: dict[int, Reading] = {}
    for line in answered.split(b"\n"):
        with contextlib.suppress(orjson.JSONDecodeError):
            told = orjson.loads(line)
            readings[told["n"]] = (from_stored(told["intel"]) if told["intel"] else None, told["problem"])
    return readings


def answers(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The worker's answers to its questions."""
    files = DiskFiles()
    with files.keeping_copies():
        yield from _answers(files, lines)


def _answers(files: DiskFiles, lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        asked = orjson.loads(line)
        given = asked["found"]
        found = Found(**{**given, "paths": tuple(given["paths"])})
        try:
            intel = listed(store_named(found.store).open(files, found, Depth.LIST).read().intel())
        except Exception as error:  # noqa: BLE001  (said to whoever asked)
            yield orjson.dumps(
                {"n": asked["n"], "intel": None, "problem": f"{type(error).__name__}: {error}"}
            )
        else:
            yield orjson.dumps({"n": asked["n"], "intel": to_stored(intel), "problem": ""})


def main() -> None:
    """Answer what comes on stdin, out of the way of others."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(5)
    out = sys.stdout.buffer
    for answer in answers(sys.stdin.buffer):
        out.write(answer + b"\n")
    out.flush()


if __name__ == "__main__":
    main()
