"""What is under way, and acting on it: status, sessions, handoff, pause, resume, stop, reply."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from relay.cli.base import command, say, session_argument, settings
from relay.cli.choose import View, chosen, pick
from relay.cli.client import connect, segment
from relay.cli.render_style import ENDED_COLOURS, how_ended
from relay.cli.tables import instant, pairs, percent, plural, print_json, show_table
from relay.errors import ConfigError, NotFoundError


@command("status")
@session_argument
@click.option("--tree", is_flag=True, help="The live actors of the daemon instead.")
def status(sid: str, tree: bool) -> None:
    """What is under way and where it stands; with SESSION, everything about that one.

    Exit code 3 when no daemon runs: then nothing is under way.
    """
    chosen_settings = settings()
    with connect(chosen_settings) as client:
        if tree:
            found = client.get("/api/status", tree="1")
            if chosen_settings.as_json:
                print_json(found)
            else:
                click.echo("\n".join(tree_lines(found.get("tree", found))))
            return
        if sid:
            view = chosen(client, sid)
            if chosen_settings.as_json:
                print_json(view)
            else:
                click.echo(pairs(session_facts(view)))
            return
        views = client.get("/api/sessions")
    under_way = [view for view in views if view["fsmState"] not in ENDED_COLOURS]
    if chosen_settings.as_json:
        print_json(under_way)
        return
    show_table(
        _HEADINGS, map(_row, under_way), empty='no session is under way; begin one: relay run "the task"'
    )
    asking = sum(int(view.get("live", {}).get("openPermissions", 0)) for view in under_way)
    if asking:
        say(f"{plural(asking, 'request')} for permission: relay approvals")


@command("sessions")
@click.option("--all", "everything", is_flag=True, help="All of them, not the newest 20 alone.")
def sessions(everything: bool) -> None:
    """All sessions of all repositories, the newest first."""
    chosen_settings = settings()
    with connect(chosen_settings) as client:
        views = client.get("/api/sessions")
    shown = views if everything or chosen_settings.as_json else views[:20]
    if chosen_settings.as_json:
        print_json(shown)
        return
    show_table(_HEADINGS, map(_row, shown), empty="there are no sessions yet")
    if len(shown) < len(views):
        say(f"[... {len(views) - len(shown)} older ones: relay sessions --all]")


@command("handoff")
@session_argument
@click.option("--to", default="", metavar="NAME[/ACCOUNT]", help="Who goes on; without it, the chain's next.")
def handoff(sid: str, to: str) -> None:
    """Stop the agent at a safe point and let the next one go on."""
    _act(sid, "handoff", {"to": to}, "hands over at the next safe point")


@command("pause")
@session_argument
def pause(sid: str) -> None:
    """Stop the agent at a safe point, commit the work, and wait for `relay resume`."""
    _act(sid, "pause", {}, "pauses at the next safe point")


@command("resume")
@session_argument
def resume(sid: str) -> None:
    """Go on after a pause, a question or a wait."""
    _act(sid, "resume", {}, "goes on")


@command("stop")
@session_argument
def stop(sid: str) -> None:
    """End a session; its work is committed and stays on its branch."""
    _act(sid, "stop", {}, "is being stopped")


@command("reply")
@click.argument("words", nargs=-1, required=True, metavar="[SESSION] TEXT")
def reply(words: tuple[str, ...]) -> None:
    """Say TEXT to the agent; also the answer to a question it asked ("-" reads the text from stdin).

    With two or more words in front of which a session stands, that session is meant.
    """
    sid, text = ("", words[0]) if len(words) == 1 else (words[0], " ".join(words[1:]))
    if text == "-":
        text = sys.stdin.read()
    if not text.strip():
        raise ConfigError("the reply is empty")
    with connect(settings()) as client:
        views = client.get("/api/sessions")
        try:
            view = pick(views, sid)
        except NotFoundError as error:
            if sid:
                hint = "put the text in quotes; `relay sessions` lists the sessions"
                raise NotFoundError(error.message, hint=hint) from error
            raise
        answer = client.post(f"/api/sessions/{segment(str(view['sessionId']))}/reply", {"reply": text})
    _tell(view, answer, "is told when it goes on" if answer.get("queued") else "is told")


def _act(sid: str, action: str, body: Mapping[str, Any], said: str) -> None:
    with connect(settings()) as client:
        view = chosen(client, sid)
        answer = client.post(f"/api/sessions/{segment(str(view['sessionId']))}/{action}", body)
    _tell(view, answer, said)


def _tell(view: View, answer: Mapping[str, Any], said: str) -> None:
    if settings().as_json:
        print_json(answer)
    else:
        say(f"{view['sessionId']} {said}")


_HEADINGS = ("session", "state", "agent", "handoffs", "repository", "task")


def _row(view: View) -> tuple[object, ...]:
    return (
        view["sessionId"],
        view["fsmState"],
        _agent(view),
        view.get("handoffsDone", 0),
        str(view.get("repository", "")).rstrip("/").rpartition("/")[2],
        view.get("taskGoal", ""),
    )


def _agent(view: View) -> str:
    """The active agent, or the last one of a session that is over, as NAME or NAME/ACCOUNT."""
    runs = view.get("runs") or [{}]
    return str(runs[-1].get("target", ""))


def _held(view: View) -> str:
    """What it waits for when it is no instant."""
    if not view.get("hold"):
        return ""
    return "you resume it" + (", or restore one of them" if view.get("blocked") else "")


def session_facts(view: View) -> list[tuple[str, object]]:
    """A session in full, as names and values."""
    verified = {True: "passed", False: "failed"}.get(view.get("verified"), "")  # type: ignore[arg-type]
    checks = view.get("verify") or []
    return [
        ("session", view.get("sessionId")),
        ("task", view.get("taskGoal")),
        ("state", view.get("fsmState")),
        ("waits", view.get("waitReason")),
        ("until", instant(view.get("wakeAt")) or _held(view)),
        ("ended", view.get("endReason")),
        ("agent", _agent(view)),
        ("chain", " -> ".join(str(target) for target in view.get("chain") or [])),
        ("handoffs", view.get("handoffsDone")),
        ("tokens", view.get("tokensUsed")),
        ("fidelity", percent(view.get("hfsScore"))),
        ("allow", view.get("allow")),
        ("verify", "\n".join(str(check) for check in checks)),
        ("verified", verified),
        ("repository", view.get("repository")),
        ("worktree", "" if view.get("discarded") else view.get("worktree")),
        ("branch", view.get("branch")),
        ("merged", f"into {view['mergedInto']}" if view.get("mergedInto") else ""),
        ("discarded", "yes" if view.get("discarded") else ""),
        ("contract", view.get("contractId")),
        ("snapshot", view.get("snapshotCommit")),
        ("begun", instant(view.get("createdAt"))),
        ("changed", instant(view.get("updatedAt"))),
        ("runs", "\n".join(_run_line(run) for run in view.get("runs") or [])),
        ("notes", "\n".join(str(note) for note in view.get("notes") or [])),
    ]


def _run_line(run: Mapping[str, Any]) -> str:
    how = " (its own session resumed)" if run.get("nativeResume") else ""
    ended = ""
    if run.get("endedAt"):
        why = str(run.get("whyEnded", ""))
        # Killed together with what would have written its status down, or gone with the machine.
        lost = why == "ended" and run.get("status") is None
        ended = f", {'was gone' if lost else 'ended'} {instant(run['endedAt'])}"
        ended += ", without a status" if lost else f" {how_ended(why)}"
    return f"{run.get('number')}: {run.get('target')}{how}, {run.get('tokens', 0)} tokens{ended}".rstrip()


def tree_lines(node: Mapping[str, Any], indent: str = "") -> list[str]:
    """A tree of actors as lines: `name  detail`, children set in by two."""
    more = [str(value) for name, value in node.items() if name not in ("name", "children") and value]
    lines = ["  ".join([f"{indent}{node.get('name', '?')}", *more])]
    for child in node.get("children") or []:
        lines += tree_lines(child, indent + "  ")
    return lines
