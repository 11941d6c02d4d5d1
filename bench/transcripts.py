"""Generated transcripts of Claude Code and Codex, made of what real ones are made of.

Used by `bench/detect.py`. Deterministic.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

WORDS = (
    "the",
    "order",
    "service",
    "returns",
    "a",
    "refund",
    "when",
    "its",
    "state",
    "allows",
    "ledger",
    "test",
)


def claude(home: Path, size: int, *, sessions: int = 100, seed: int = 1) -> int:
    """Write transcripts of about `size` bytes in all below `home`; how many bytes there are."""
    made = 0
    for number in range(sessions):
        rng = random.Random(seed * 100_000 + number)
        path = (
            home
            / "projects"
            / f"-work-app-{number % 10}"
            / f"{rng.randrange(16**8):08x}-0000-4000-8000-{number:012x}.jsonl"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            made += _claude(file, rng, path.stem, size // sessions)
    return made


def _claude(file: object, rng: random.Random, sid: str, size: int) -> int:
    now = datetime.now(UTC) - timedelta(hours=2)
    written = 0
    count = 0
    write = file.write  # type: ignore[attr-defined]

    def row(kind: str, message: dict[str, object], **more: object) -> None:
        nonlocal written, now, count
        now += timedelta(milliseconds=700)
        count += 1
        record = {
            "parentUuid": f"{sid}-{count - 1}",
            "isSidechain": False,
            "type": kind,
            "message": message,
            "uuid": f"{sid}-{count}",
            "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            **more,
            "userType": "external",
            "cwd": "/work/app",
            "sessionId": sid,
            "version": "2.1.332",
            "gitBranch": "main",
        }
        written += write(json.dumps(record, separators=(",", ":")) + "\n")

    def assistant(block: dict[str, object], stop: str = "tool_use") -> None:
        usage = {
            "input_tokens": 12,
            "cache_creation_input_tokens": 900,
            "cache_read_input_tokens": 40_000 + count,
            "output_tokens": 210,
            "service_tier": "standard",
        }
        row(
            "assistant",
            {
                "id": f"msg_{sid}_{count}",
                "type": "message",
                "role": "assistant",
                "model": "claude-opus-5-5",
                "content": [block],
                "stop_reason": stop,
                "usage": usage,
            },
            requestId=f"req_{count}",
        )

    def text(length: int) -> str:
        return " ".join(rng.choices(WORDS, k=max(1, length // 5)))

    row("user", {"role": "user", "content": f"Add a refund flow, part {sid}"}, promptSource="typed")
    while written < size:
        call = f"toolu_{sid}_{count}"
        kind = rng.random()
        assistant({"type": "text", "text": text(300)})
        if kind < 0.45:
            assistant(
                {
                    "type": "tool_use",
                    "id": call,
                    "name": "Read",
                    "input": {"file_path": f"/work/app/src/m{rng.randrange(300)}.py"},
                }
            )
            body = text(int(rng.expovariate(1 / 6000)) + 200)
            result = {
                "type": "text",
                "file": {"filePath": "/work/app/src/m.py", "content": body, "numLines": 120},
            }
        elif kind < 0.7:
            assistant(
                {
                    "type": "tool_use",
                    "id": call,
                    "name": "Bash",
                    "input": {
                        "command": f"pytest tests/test_{rng.randrange(60)}.py -q",
                        "description": "Run tests",
                    },
                }
            )
            body = text(int(rng.expovariate(1 / 3000)) + 100)
            result = {"stdout": body, "stderr": "", "interrupted": False}
        elif kind < 0.95:
            old, new = text(400), text(500)
            assistant(
                {
                    "type": "tool_use",
                    "id": call,
                    "name": "Edit",
                    "input": {
                        "file_path": f"/work/app/src/m{rng.randrange(300)}.py",
                        "old_string": old,
                        "new_string": new,
                    },
                }
            )
            body = "The file has been updated."
            result = {
                "filePath": "/work/app/src/m.py",
                "oldString": old,
                "newString": new,
                "originalFile": text(5000),
                "structuredPatch": [{"lines": [text(80)] * 12}],
            }
        else:
            todos = [
                {
                    "content": f"Step {n} of {sid}",
                    "status": "completed" if n < count % 8 else "pending",
                    "activeForm": "x",
                }
                for n in range(8)
            ]
            assistant({"type": "tool_use", "id": call, "name": "TodoWrite", "input": {"todos": todos}})
            body = "Todos have been modified successfully."
            result = {"oldTodos": todos, "newTodos": todos}
        if rng.random() < 0.002:
            body = "iVBORw0KGgo" + "A" * 400_000
        row(
            "user",
            {"role": "user", "content": [{"tool_use_id": call, "type": "tool_result", "content": body}]},
            toolUseResult=result,
        )
    assistant({"type": "text", "text": "Done so far; the tests come next."}, "end_turn")
    return written
