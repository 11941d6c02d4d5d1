"""`relay approvals`: what agents ask permission for, and a person's answers."""

from __future__ import annotations

import click

from relay.cli.base import Group, say, settings
from relay.cli.client import connect, segment
from relay.cli.render_style import wish, words
from relay.cli.tables import instant, print_json, show_table


@click.group("approvals", cls=Group, default="list")
def approvals() -> None:
    """Permission requests of agents. One that nobody answers is denied after a while."""


@approvals.command("list")
def listed() -> None:
    """What waits for an answer."""
    with connect(settings()) as client:
        found = client.get("/api/approvals")
    if settings().as_json:
        print_json(found)
        return
    rows = [
        (
            asked.get("id", ""),
            asked.get("session", ""),
            asked.get("target", ""),
            instant(asked.get("deniedAt")),
            words(asked, "question", 2000) or wish(asked),
        )
        for asked in found
    ]
    show_table(("id", "session", "agent", "denied at", "wants to"), rows, empty="nothing waits for an answer")


@approvals.command("approve")
@click.argument("approval", metavar="ID")
@click.option("--note", default="", help="What the agent is told; for a question, the answer.")
def approve(approval: str, note: str) -> None:
    """Allow a request."""
    _decide(approval, True, note)


@approvals.command("deny")
@click.argument("approval", metavar="ID")
@click.option("--note", default="", help="What the agent is told.")
def deny(approval: str, note: str) -> None:
    """Refuse a request; the agent is told and goes on without."""
    _decide(approval, False, note)


def _decide(approval: str, approved: bool, note: str) -> None:
    with connect(settings()) as client:
        answer = client.post(f"/api/approvals/{segment(approval)}", {"approved": approved, "note": note})
    if settings().as_json:
        print_json(answer)
    else:
        say(f"{answer.get('id', approval)} {'approved' if approved else 'denied'}")
