"""Filters on stdin that need no daemon: `relay redact` and `relay classify`."""

from __future__ import annotations

import codecs
import os
import sys
from datetime import datetime, tzinfo
from typing import BinaryIO

import click

from relay.cli.base import command, settings
from relay.cli.tables import pairs, print_json
from relay.errors import ConfigError

BLOCK = 64 * 1024


@command("redact")
def redact() -> None:
    """Copy stdin to stdout with every secret replaced by [REDACTED:kind].

    Lines come as soon as they are whole; bytes that are no UTF-8 pass unchanged. With --json, not the
    text but how many secrets of which kind it holds.
    """
    from relay.core.redact_stream import StreamRedactor

    redactor = StreamRedactor()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    counting = settings().as_json

    def give(text: str) -> None:
        if text and not counting:
            sink.write(text.encode("utf-8", "surrogateescape"))
            sink.flush()

    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    while block := _read(source):
        give(redactor.feed(decoder.decode(block)))
    give(redactor.feed(decoder.decode(b"", final=True)))
    give(redactor.close())
    if counting:
        print_json({"total": sum(redactor.counts.values()), "kinds": redactor.counts})


@command("classify")
@click.option("--provider", required=True, metavar="NAME", help="Whose error it is; any name.")
@click.option(
    "--channel",
    required=True,
    metavar="CHANNEL",
    help="Where it was seen: stdout_json, stderr, http_body, header, transcript or spoken.",
)
@click.option("--now", default="", metavar="ISO", help="The instant of the error (default: now).")
@click.option(
    "--tz", default="", metavar="ZONE", help="Zone of clocks that name none (default: this machine's)."
)
@click.option("--code", default=None, help="The provider's own error code.")
@click.option("--http-status", type=click.IntRange(100, 599), default=None, help="The HTTP status.")
@click.option("--attempt", type=click.IntRange(0), default=0, show_default=True, help="Tries made before.")
@click.option(
    "--fallback/--no-fallback", default=True, help="Whether another agent could go on (default: yes)."
)
def classify(
    provider: str,
    channel: str,
    now: str,
    tz: str,
    code: str | None,
    http_status: int | None,
    attempt: int,
    fallback: bool,
) -> None:
    """Say what an error text on stdin means: its class, when it is over, what Relay would do and why."""
    from relay.core import retry
    from relay.core.events import Channel, ErrorSignal
    from relay.providers.wordings import wording_of

    try:
        seen = Channel(channel)
    except ValueError as error:
        raise ConfigError(f"channel {channel!r} is none of {', '.join(Channel)}") from error
    zone = _zone(tz)
    at = _instant(now, zone)
    data = sys.stdin.buffer.read()
    text = data.decode("utf-8", "replace")
    signal = ErrorSignal(channel=seen, text=text, code=code, http_status=http_status)
    verdict = retry.classify(signal, wording_of(provider), now=at, zone=zone)
    decision = retry.decide(
        verdict, retry.RetryPolicy(), now=at, attempt=attempt, has_fallback=fallback, random=0.5
    )
    until = getattr(decision, "at", None) or getattr(decision, "until", None)
    facts = {
        "class": verdict.failure.value,
        "resetsAt": verdict.resets_at.isoformat() if verdict.resets_at else None,
        "resetRule": verdict.reset_rule,
        "decision": type(decision).__name__,
        "at": until.isoformat() if until else None,
        "why": verdict.why,
        "explanation": retry.explain(verdict, decision),
    }
    if settings().as_json:
        print_json(facts)
        return
    click.echo(
        pairs(
            [
                ("class", facts["class"]),
                ("resets at", facts["resetsAt"]),
                ("reset rule", facts["resetRule"]),
                ("Relay would", facts["explanation"]),
            ]
        )
    )


def _read(source: BinaryIO) -> bytes:
    # What is there, rather than a full block: a filter in a pipe must not hold back lines.
    return source.read1(BLOCK) if hasattr(source, "read1") else source.read(BLOCK)


def _instant(text: str, zone: tzinfo) -> datetime:
    if not text:
        return datetime.now(zone)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"--now {text!r} is no ISO 8601 instant", hint="like 2026-03-01T09:30:00Z"
        ) from error
    return at if at.tzinfo else at.replace(tzinfo=zone)


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    wanted = name or os.environ.get("TZ", "").lstrip(":") or _linked_zone()
    try:
        return ZoneInfo(wanted)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        if name:
            raise ConfigError(f"--tz {name!r} is no time zone", hint="like Europe/Berlin or UTC") from error
    local = datetime.now().astimezone().tzinfo
    assert local is not None
    return local


def _linked_zone() -> str:
    return os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
