"""Reading recorded stores in tests: find and open every session, compare depths, damage transcripts."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from relay.core.intel import Depth, SessionIntel
from relay.effects.store_files import DiskFiles
from relay.providers.store_protocol import Found, Machine, SessionStore

FILES = DiskFiles()
ALIKE = (
    "native_id",
    "cwd",
    "branch",
    "model",
    "version",
    "title",
    "first_prompt",
    "last_prompt",
    "plan",
    "tasks_done",
    "tasks_remaining",
    "files_changed",
    "files_outside",
    "tokens",
    "context_tokens",
    "context_window",
    "message_count",
    "limits",
    "turn_open",
    "last_message",
    "started_at",
    "last_activity",
    "subagents",
    "compactions",
    "forked_from",
    "parent",
)
"""What a list tells as well as a full reading does."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
"""Any value that a record may have in the place of the usual one."""


def machine(home: Path, **more: object) -> Machine:
    """A Linux machine with this home folder and nothing else."""
    return Machine(**{"env": {}, "home": str(home), **more})  # type: ignore[arg-type]


def found(store: SessionStore, where: Machine) -> list[Found]:
    """Every session of the store, in the order of their ids."""
    sessions = [each for home in store.homes(where) for each in store.find(FILES, home, 0.0)]
    return sorted(sessions, key=lambda each: (each.native_id, each.paths))


def lifted(store: SessionStore, where: Machine, depth: Depth = Depth.FULL) -> list[SessionIntel]:
    """Every session of the store, read."""
    return [store.open(FILES, each, depth).read().intel() for each in found(store, where)]


def the_one(store: SessionStore, where: Machine, depth: Depth = Depth.FULL) -> SessionIntel:
    """The only session of the store."""
    [intel] = lifted(store, where, depth)
    return intel


def told(intel: SessionIntel) -> dict[str, object]:
    """What both depths must agree on."""
    return {name: getattr(intel, name) for name in ALIKE}


@st.composite
def damages(draw: st.DrawFn, data: bytes) -> tuple[bytes, list[int]]:
    """A transcript of JSON lines, damaged; and the numbers of the lines that are still whole.

    A line is cut short, doubled, overwritten with NULs or other bytes, or glued to the next one after
    a cut; the file may end in the middle of a line.
    """
    lines = data.rstrip(b"\n").split(b"\n")
    out: list[bytes] = []
    whole: list[int] = []
    for number, line in enumerate(lines):
        kind = draw(st.sampled_from(("keep",) * 8 + ("cut", "double", "nul", "noise", "glue")))
        at = draw(st.integers(0, max(0, len(line) - 1)))
        match kind:
            case "cut":
                out.append(line[:at] + b"\n")
            case "double":
                out.append(line + b"\n" + line + b"\n")
                whole.append(number)
            case "nul":
                out.append(line[:at] + b"\0" * 40 + b"\n")
            case "noise":
                out.append(line[:at] + draw(st.binary(min_size=1, max_size=8)).replace(b"\n", b"?") + b"\n")
            case "glue":
                out.append(line[:at])
            case _:
                out.append(line + b"\n")
                whole.append(number)
    text = b"".join(out)
    return text[: len(text) - draw(st.sampled_from((0, 0, 1)))], whole
