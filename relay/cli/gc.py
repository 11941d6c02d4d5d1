"""`relay gc`: what is left of ended sessions, and clearing it away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from relay.cli.base import command, say, settings
from relay.cli.client import Client
from relay.cli.launch import ensure_daemon
from relay.cli.tables import plural, print_json, show_table

WAIT_SECONDS = 600.0


@command("gc")
@click.option("--dry-run", is_flag=True, help="Print what would go; remove nothing.")
@click.option(
    "--older-than",
    "keep_days",
    type=click.FloatRange(0, 36_500),
    metavar="DAYS",
    help="What ended within so many days is kept (default: keep_days of relay.toml, 14).",
)
def gc(dry_run: bool, keep_days: float | None) -> None:
    """Clear away what is left of ended sessions: output, merged worktrees, files of crashed writes.

    Work that is not committed or not merged is kept and listed. The daemon does this by itself once a day.
    """
    body: dict[str, Any] = {"dryRun": dry_run}
    if keep_days is not None:
        body["keepDays"] = keep_days
    with Client(ensure_daemon(settings())) as client:
        answer = client.post("/api/gc", body, seconds=WAIT_SECONDS)
    if settings().as_json:
        print_json(answer)
        return
    items = answer["items"]
    going = [item for item in items if item["remove"]]
    kept = [item for item in items if not item["remove"]]
    verb = "would go" if dry_run else "gone"
    show_table(
        ("what", "size", verb, "why"),
        [
            (item["kind"], size(item.get("bytes", 0)), item["path"], item["why"])
            for item in going
            if dry_run or item["removed"]
        ],
        empty="nothing is to be cleared away",
    )
    if going:
        given = [item for item in going if dry_run or item["removed"]]
        total = size(sum(item.get("bytes", 0) for item in given))
        say(f"{plural(len(given), 'thing')}, {total} {'to be had' if dry_run else 'given back'}")
    _show_kept(kept)
    if answer.get("auditBytes"):
        say(f"audit logs, which are never removed: {size(answer['auditBytes'])}")
    for problem in answer["problems"]:
        click.echo(f"note: {problem}", err=True)


def _show_kept(kept: Sequence[Mapping[str, Any]]) -> None:
    """Worktrees one by one, with the command that ends the reason; the rest counted by kind and reason."""
    worktrees = [item for item in kept if item["kind"] == "worktree" and item.get("hint")]
    if worktrees:
        say("\nworktrees that are kept:")
        for item in worktrees:
            say(_kept(item))
    others: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for item in kept:
        if item not in worktrees:
            others.setdefault((item["kind"], item["why"]), []).append(item)
    if others:
        say("\nalso kept:")
    for (kind, why), alike in sorted(others.items()):
        say(f"  {len(alike)} x {kind}, {size(sum(item.get('bytes', 0) for item in alike))}: {why}")


def _kept(item: Mapping[str, Any]) -> str:
    hint = f"\n    {item['hint']}" if item.get("hint") else ""
    name = item.get("session") or item["path"]
    return f"  {name} ({size(item.get('bytes', 0))}): {item['why']}{hint}"


def size(count: int) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count = count / 1000  # type: ignore[assignment]
    return f"{count:.1f} GB"
