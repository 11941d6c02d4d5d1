"""Expected values of recorded sessions, in a form that is short to write down."""

from __future__ import annotations

from typing import Any

from relay.core.intel import SessionIntel


def shown(intel: SessionIntel, name: str) -> Any:
    """A field of the intel; of lists of records the parts that a recording determines."""
    match name:
        case "limits":
            return tuple(str(limit.failure) for limit in intel.limits)[-1:]
        case "resets":
            return tuple(limit.resets_at.isoformat() if limit.resets_at else None for limit in intel.limits)[
                -1:
            ]
        case "commands":
            return tuple((ran.command, ran.exit_code) for ran in intel.commands)
        case "failed_attempts":
            return tuple((tried.what, tried.why) for tried in intel.failed_attempts)
        case "tokens":
            return (intel.tokens.input, intel.tokens.cached_input, intel.tokens.output)
        case "said":
            return tuple(f"{turn.role}: {turn.text}" for turn in intel.turns)
    return getattr(intel, name)


def differing(intel: SessionIntel, expected: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What is not as expected: by field, (found, expected)."""
    found = {name: shown(intel, name) for name in expected}
    return {name: (found[name], expected[name]) for name in expected if found[name] != expected[name]}


def certain(data: bytes, text: bytes, whole: list[int]) -> list[int]:
    """Of the lines of `data` that are whole in the damaged `text`, those that are told apart already.

    A last line without its newline that has a torn one before it may still grow.
    """
    last = data.rstrip(b"\n").split(b"\n")[-1]
    grown = text.endswith(b"\n") or text.split(b"\n")[-1] == last
    return [number for number in whole if grown or number < data.rstrip(b"\n").count(b"\n")]
