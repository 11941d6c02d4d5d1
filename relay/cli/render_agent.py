"""What an agent does, one event at a time. The table `AGENT` is used by `relay.cli.render`."""

from __future__ import annotations

from relay.cli.render_style import (
    Data,
    Said,
    Speak,
    Style,
    error_text,
    noise,
    number,
    records,
    what,
    wish,
    words,
)
from relay.core.quoting import clean, one_line

OUTPUT_LINES = 6
"""Lines of a failed command's output that are shown."""
TEXT_LINES = 40
"""Lines of one message that are shown without `-v`."""
TIGHT = 0.75
"""From this fraction on, a quota is worth a line."""


def _started(data: Data, style: Style) -> Said:
    facts = [text for name in ("model", "version") if (text := words(data, name))]
    return Said(f"is up ({', '.join(facts)})" if facts else "is up", "dim")


def _text(data: Data, style: Style) -> Said | None:
    text = clean(str(data.get("text", ""))).strip()
    return Said(text, most=0 if style.verbose else TEXT_LINES) if text else None


def _thinking(data: Data, style: Style) -> Said | None:
    text = clean(str(data.get("text", ""))).strip()
    if not text:
        return None
    return Said(text if style.verbose else f"thinks: {one_line(text, 160)}", "dim")


def _user_text(data: Data, style: Style) -> Said | None:
    if data.get("synthetic") and not style.verbose:
        return None
    return Said(f"is told: {words(data, 'text')}", "dim")


def _tool_call(data: Data, style: Style) -> Said:
    kind = str(data.get("toolKind", "other"))
    name = words(data, "tool") or "tool" if kind in ("other", "mcp", "subagent") else kind
    sign = "$" if kind == "shell" else name
    return Said(f"{sign} {one_line(what(data), 2000 if style.verbose else 400)}".rstrip())


def _tool_result(data: Data, style: Style) -> Said | None:
    code = number(data, "exitCode")
    output = clean(str(data.get("output", ""))).strip("\n")
    tail = tuple(line for line in output.split("\n")[-OUTPUT_LINES:] if line.strip())
    if data.get("denied"):
        return Said("not allowed: it did not run", "yellow")
    if not data.get("ok"):
        return Said(f"exit {code}" if code is not None else "failed", "red", below=tail)
    if code is None and not style.verbose:
        return None
    return Said("done" if code is None else f"exit {code}", "green", below=tail if style.verbose else ())


def _plan(data: Data, style: Style) -> Said | None:
    plan = records(data, "items")
    if not plan:
        return None
    done = sum(item.get("status") == "completed" for item in plan)
    now = next((words(item, "text", 120) for item in plan if item.get("status") == "in_progress"), "")
    text = f"plan: {done} of {len(plan)} done" + (f"; now: {now}" if now else "")
    signs = {"completed": "[x]", "in_progress": "[>]"}
    every = [f"{signs.get(str(item.get('status')), '[ ]')} {words(item, 'text', 200)}" for item in plan]
    return Said(text, "cyan", below=tuple(every) if style.verbose else ())


def _usage(data: Data, style: Style) -> Said | None:
    usage = data.get("usage")
    if not style.verbose or not isinstance(usage, dict):
        return None
    return Said(f"used {sum(n for n in usage.values() if isinstance(n, int))} tokens", "dim")


def _quota(data: Data, style: Style) -> Said | None:
    parts, tight = [], False
    for window in records(data, "windows"):
        used, rejected = number(window, "fractionUsed"), bool(window.get("rejected"))
        tight = tight or rejected or (used is not None and used >= TIGHT)
        told = "used up" if rejected else f"{used:.0%} used" if used is not None else ""
        if told:
            parts.append(f"{words(window, 'name')} {told}".strip())
    if not parts or not (tight or style.verbose):
        return None
    return Said(f"quota: {', '.join(parts)}", "yellow" if tight else "dim")


def _permission(data: Data, style: Style) -> Said | None:
    # The approval that follows says it, unless the policy allows it unasked.
    return Said(f"asks to {wish(data)}", "dim") if style.verbose else None


def _retrying(data: Data, style: Style) -> Said:
    most, delay = words(data, "maxAttempts"), number(data, "delay")
    wait = f" in {delay:.0f} s" if delay is not None else ""
    tries = f"try {words(data, 'attempt')}" + (f" of {most}" if most else "")
    why = error_text(data, 160)
    return Said(f"tries again by itself{wait} ({tries})" + (f": {why}" if why else ""), "yellow")


def _turn_ended(data: Data, style: Style) -> Said | None:
    match data.get("outcome"):
        case "failed":
            return Said(f"its turn failed: {error_text(data, 300)}".rstrip(": "), "red")
        case "interrupted":
            return Said("was interrupted", "yellow")
    return Said("is done with its turn", "dim") if style.verbose else None


def _notice(data: Data, style: Style) -> Said | None:
    plain = str(data.get("level", "info")) == "info"
    if plain and not style.verbose:
        return None
    return Said(words(data, "text"), "dim" if plain else "yellow")


def _output(data: Data, style: Style) -> Said | None:
    text = words(data, "text", 300)
    return Said(f"{words(data, 'stream')}: {text}", "dim") if text else None


AGENT: dict[str, Speak] = {
    "started": _started,
    "text": _text,
    "thinking": _thinking,
    "user_text": _user_text,
    "tool_call": _tool_call,
    "tool_result": _tool_result,
    "plan": _plan,
    "usage": _usage,
    "quota": _quota,
    "permission": _permission,
    "retrying": _retrying,
    "turn_started": noise("begins a turn"),
    "turn_ended": _turn_ended,
    "notice": _notice,
    "output": _output,
}
"""Kind of an agent's event -> what it comes to. Kinds that are not here are shown with `-v` alone."""
