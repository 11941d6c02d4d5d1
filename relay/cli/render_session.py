"""What Relay does for a session, one event at a time. The table `SESSION` is used by `relay.cli.render`."""

from __future__ import annotations

from relay.cli.render_style import (
    ENDED_COLOURS,
    Data,
    Said,
    Speak,
    Style,
    how_ended,
    instant_of,
    lines,
    noise,
    number,
    records,
    wish,
    words,
)

_DECISIONS = {
    "Retry": "asked again",
    "HandOff": "handed off",
    "Wait": "waits for the reset",
    "AskUser": "needs you",
}


def _session(data: Data, style: Style) -> Said:
    if data.get("recovered"):
        return Said(f"the daemon is back and follows on ({words(data, 'state')})", "dim")
    below = []
    if data.get("branch"):
        below.append(f"branch {words(data, 'branch')}, worktree {words(data, 'worktree', 2000)}")
    chain = lines(data, "chain")
    if chain:
        below.append(f"chain {' -> '.join(chain)}")
    carried = number(data, "carriedFiles") or 0
    if carried:
        files = "1 changed file" if carried == 1 else f"{carried} changed files"
        below.append(f"{files} of your checkout carried along (--clean leaves them out)")
    return Said(f"task: {words(data, 'goal')}", "bold", below=(*below, *lines(data, "notes")))


def _fsm(data: Data, style: Style) -> Said | None:
    to = words(data, "to")
    if to == words(data, "from") and not style.verbose:
        return None
    below: list[str] = []
    if to == "PAUSING" and data.get("reason"):
        below.append(words(data, "reason", 500))
    if to == "WAITING":
        below += [words(data, "waitReason", 500)] if data.get("waitReason") else []
        wake = style.date(data.get("wakeAt"))
        by_hand = "waits for you: relay resume, relay reply, relay handoff or relay stop"
        below.append(f"goes on by itself at {wake}" if wake else by_hand)
    if to in ENDED_COLOURS and data.get("endReason"):
        below.append(words(data, "endReason", 500))
    colour = ENDED_COLOURS.get(to, "yellow" if to == "WAITING" else "bold")
    text = f"{words(data, 'from')} -> {to}  {words(data, 'target')}"
    return Said(text.rstrip(), colour, below=tuple(below))


def _failure(data: Data, style: Style) -> Said:
    kind = words(data, "class").replace("_", " ") or "failure"
    resets = style.date(data.get("resetsAt"))
    decision = _DECISIONS.get(str(data.get("decision")), "")
    text = f"{words(data, 'target')}: {kind}"
    text += f", resets at {resets}" if resets else ""
    text += f"; {decision}" if decision else ""
    # The words themselves are in the turn's end before it and in the reason of the handoff after it.
    why = words(data, "why", 300)
    return Said(text, "yellow", below=(f"by {why}",) if why and style.verbose else ())


def _gate(data: Data, style: Style) -> Said:
    forced = "stopped in the middle of a tool call: the deadline is over"
    return Said(forced, "yellow") if data.get("forced") else Said("safe point reached")


def _snapshot(data: Data, style: Style) -> Said:
    below = [f"left out: {path}" for path in lines(data, "leftOut")] + lines(data, "notes")
    stat = words(data, "diffStat", 200) or "nothing changed"
    return Said(f"snapshot {words(data, 'commit')[:10]}: {stat}", below=tuple(below))


def _contract(data: Data, style: Style) -> Said:
    return Said(f"contract {words(data, 'id')} signed")


def _dispatched(data: Data, style: Style) -> Said:
    how = " by resuming its own session" if data.get("nativeResume") else ""
    below = [f"changed since the contract: {path}" for path in lines(data, "drift")] + lines(data, "notes")
    text = f"run {words(data, 'run')}: {words(data, 'target')} started{how} (pid {words(data, 'pid')})"
    return Said(text, below=tuple(below))


def _start_failed(data: Data, style: Style) -> Said:
    return Said(f"{words(data, 'target')} did not start: {words(data, 'why', 300)}", "red")


def _child_ended(data: Data, style: Style) -> Said | None:
    return noise(f"run {words(data, 'run')} ended with status {words(data, 'status')}")(data, style)


def _child_gone(data: Data, style: Style) -> Said | None:
    left = lines(data, "left")
    if left:
        return Said(f"run {words(data, 'run')}: processes that would not end: {', '.join(left)}", "red")
    return noise(f"run {words(data, 'run')} is gone, {how_ended(words(data, 'how'))}")(data, style)


def _verify(data: Data, style: Style) -> Said:
    below = []
    for check in records(data, "commands"):
        ended = "passed" if check.get("passed") else f"exit {words(check, 'status')}"
        below.append(f"$ {words(check, 'command')}: {ended}, {number(check, 'seconds') or 0:.1f} s")
    if data.get("passed"):
        return Said("verify passed", "green", below=tuple(below))
    return Said("verify failed", "red", below=tuple(below))


def _approval(data: Data, style: Style) -> Said:
    approval = words(data, "id", 60)
    who = words(data, "target") or "the agent"
    if data.get("status") != "open":
        by = f" by {words(data, 'by')}" if data.get("by") else ""
        note = f": {words(data, 'note')}" if data.get("note") else ""
        colour = "green" if data.get("status") == "approved" else "yellow"
        return Said(f"{approval} {words(data, 'status')}{by}{note}", colour)
    until = instant_of(data.get("deniedAt"))
    limit = f" (denied at {until.astimezone(style.zone):%H:%M:%S})" if until else ""
    if data.get("question"):
        below = [f"- {option}" for option in lines(data, "options")]
        below.append(f"answer: relay approvals approve {approval} --note 'your answer'{limit}")
        return Said(f"{who} asks: {words(data, 'question', 600)}", "yellow", below=tuple(below))
    answers = (f"yes: relay approvals approve {approval}", f"no:  relay approvals deny {approval}{limit}")
    return Said(f"{who} wants to {wish(data)}", "yellow", below=answers)


def _command(data: Data, style: Style) -> Said | None:
    if data.get("command") == "Reply":
        return None
    return Said(f"{words(data, 'command').lower()} asked for by {words(data, 'by')}", "dim")


def _reply(data: Data, style: Style) -> Said:
    return Said(f"reply by {words(data, 'by')}: {words(data, 'text')}", "cyan")


def _said(data: Data, style: Style) -> Said | None:
    return noise(f"the agent has the message ({words(data, 'key')})")(data, style)


def _merged(data: Data, style: Style) -> Said:
    return Said(f"merged into {words(data, 'branch')}", "green")


def _discarded(data: Data, style: Style) -> Said:
    kept = words(data, "keptAs")
    return Said("worktree and branch removed", "yellow", below=(f"kept as {kept}",) if kept else ())


def _effect_failed(data: Data, style: Style) -> Said:
    hint = words(data, "hint", 300)
    text = f"{words(data, 'effect')} failed: {words(data, 'message')}"
    return Said(text, "red", below=(hint,) if hint else ())


def _actor_crashed(data: Data, style: Style) -> Said:
    return Said("Relay made a mistake here; it takes the session up again from its last saved state", "red")


SESSION: dict[str, Speak] = {
    "session": _session,
    "fsm": _fsm,
    "failure": _failure,
    "gate": _gate,
    "child_ended": _child_ended,
    "child_gone": _child_gone,
    "snapshot": _snapshot,
    "contract": _contract,
    "dispatched": _dispatched,
    "start_failed": _start_failed,
    "verify": _verify,
    "approval": _approval,
    "command": _command,
    "reply": _reply,
    "said": _said,
    "merged": _merged,
    "discarded": _discarded,
    "effect_failed": _effect_failed,
    "actor_crashed": _actor_crashed,
}
"""Type of a session's event -> what it comes to. Types that are not here are shown with `-v` alone."""
