"""How fast secrets are scrubbed: clean JSON lines, dense code, texts with secrets, hostile texts, events.

Run by hand: `python bench/redact.py`. Budget: 50 MiB/s or more on clean text, under 1 ms for a clean line
of 64 KiB. Texts are generated, so that the figures compare between machines.
"""

from __future__ import annotations

import random
import re
import string
import sysconfig
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from relay.core.events import AgentText, ToolCall, ToolKind, ToolResult
from relay.core.redact import DEFAULT
from relay.core.redact_stream import StreamRedactor

MIB = 1 << 20
WORDS = re.findall(
    r"\w+",
    "the session token count was read from a file and the key of each event "
    "is its place in the run so that reading again gives the same answer task "
    "disk risk monkey keyboard secretary passwords authorize https config worktree "
    "handler provider adapter journal state "
    "result message index value request response ",
)


def json_lines(size: int, rng: random.Random) -> str:
    lines = []
    total = 0
    while total < size:
        uid = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        words = " ".join(rng.choices(WORDS, k=rng.randrange(10, 120)))
        line = (
            f'{{"type":"assistant","uuid":"{uid}","session_id":"{uid}","message":{{"id":"msg_01{rng.getrandbits(80):020x}",'
            f'"content":[{{"type":"text","text":"{words}\\n{words[:40]}"}}],"usage":{{"input_tokens":{rng.randrange(99999)},'
            f'"cache_read_input_tokens":{rng.randrange(99999)},"output_tokens":{rng.randrange(9999)}}}}},'
            f'"url":"https://example.com/{words[:20].replace(" ", "/")}"}}\n'
        )
        lines.append(line)
        total += len(line)
    return "".join(lines)


def code(size: int) -> str:
    """Source of the standard library: dense, with the names that real code has."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    text = "".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("*.py")))
    text = text.encode("ascii", "ignore").decode()
    return (text * (size // len(text) + 1))[:size]


def token(rng: random.Random, head: str, size: int) -> str:
    return head + "".join(rng.choices(string.ascii_letters + string.digits, k=size))


def with_secrets(size: int, rng: random.Random) -> str:
    lines = json_lines(size, rng).split("\n")
    return "\n".join(
        f"{line} {token(rng, 'gh' + 'p_', 36)}" if n % 10 == 0 else line for n, line in enumerate(lines)
    )


def best(run: Callable[[], object], times: int = 5) -> float:
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        spent.append(time.perf_counter() - start)
    return min(spent)


def main() -> None:
    rng = random.Random(4748)
    texts = {
        "clean JSON lines": json_lines(4 * MIB, rng),
        "dense code": code(4 * MIB),
        "JSON lines, each tenth with a secret": with_secrets(4 * MIB, rng),
    }
    hostile = {
        '"a:" repeated': "a:" * (MIB // 2),
        "one run of letters": "a" * MIB,
        "long base64": "".join(rng.choices(string.ascii_letters + string.digits + "+/", k=MIB)),
        "long base64url": "".join(rng.choices(string.ascii_letters + string.digits + "-_", k=MIB)),
        "token heads": "sk-ant-oat01-" * (MIB // 13),
        "JWT heads": "ey-" * (MIB // 3),
        "JWT halves": "eyJhbGciOiJIUzI1NiIsInR5.ey" * (MIB // 27),
        "key headers": ("-----BEGIN RSA PRIVATE " + "KEY-----") * (MIB // 31),
        "names without value": "token=" * (MIB // 6),
        "names in a row": "secret:" + "api_key=x" * (MIB // 9),
        "URL starts": "://a:" * (MIB // 5),
        "underscores": "_" * MIB,
        "dashes": "-" * MIB,
        "backslashes": "\\" * MIB,
        "quotes": "token" + '"' * MIB,
        "spaces": "token" + " " * MIB,
        "server tokens": "ghs_1_" * (MIB // 6),
    }
    print(f"{'text':40} {'MiB/s':>8} {'ms / 64 KiB line':>18}")
    for name, text in texts.items():
        spent = best(lambda text=text: DEFAULT.redact(text))
        line = text[: 1 << 16].replace("\n", " ")
        single = best(lambda line=line: DEFAULT.redact(line), 20)
        print(f"{name:40} {len(text) / MIB / spent:8.0f} {single * 1000:18.2f}")
    for name, text in hostile.items():
        spent = best(lambda text=text: DEFAULT.redact(text), 2)
        print(f"hostile: {name:31} {len(text) / MIB / spent:8.1f}")

    def stream(text: str) -> None:
        redactor = StreamRedactor()
        for at in range(0, len(text), 1 << 16):
            redactor.feed(text[at : at + (1 << 16)])
        redactor.close()

    for name, text in texts.items():
        spent = best(lambda text=text: stream(text), 3)
        print(f"stream of 64 KiB chunks: {name:15.15} {len(text) / MIB / spent:8.0f}")

    print(f"\n{'event':40} {'us each':>8}")
    events = {
        "short text": AgentText(text="I will look at the tests first."),
        "tool call": ToolCall(
            call_id="toolu_01A", tool="Bash", tool_kind=ToolKind.SHELL, command="pytest -q", paths=("a.py",)
        ),
        "tool result, 4 KiB": ToolResult(call_id="toolu_01A", ok=True, output=code(4096)),
    }
    for name, event in events.items():
        spent = best(lambda event=event: [DEFAULT.redact_event(event) for _ in range(1000)])
        print(f"{name:40} {spent * 1000:8.1f}")


if __name__ == "__main__":
    main()
