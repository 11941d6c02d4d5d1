"""Judges an error: its class, and when the provider can be tried again.

The channel comes first: what an agent says is never a failure, and stderr is one only of a process that
did not end well. Then what is exact: codes and the HTTP status. Words come last, and only where they
stand as an error would (`relay.core.error_text`). Called by the adapter actor for every failed turn and
by `relay classify`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo

from attrs import evolve, frozen

from relay.core.error_facts import Facts, inner_facts, record_facts
from relay.core.error_headers import header_facts
from relay.core.error_text import Flat, Head, flatten, heads_of
from relay.core.events import Channel, ErrorSignal, FailureClass, Verdict
from relay.core.generic_wording import GENERIC, allowed_by, status_class
from relay.core.reset_text import rule_in, seconds_rule
from relay.core.resets import BACKOFF, PROBE, duration_of, instant_of
from relay.core.wording import NO_WAIT, Phrase, Wording, plain_code

TRANSIENT = frozenset({FailureClass.RATE_LIMIT, FailureClass.OVERLOAD, FailureClass.NETWORK})
NO_TIME_UNDER = 5.0
"""Seconds: a usage limit that would be over sooner told no time ("reset after 0s")."""

_WINDOW = 4000
_LONGEST_WORDS = 8000
_STATUS = re.compile(
    r"(?:api error:? ?\(?|status(?: code)?:? |error code:? |\bhttp(?:/[0-9.]{1,3})? |rejected \("
    r"|\A\W{0,3}|: )"
    r"(?P<status>[45][0-9]{2})\b(?! (?:lines|tokens|files|tests|ms|s)\b)",
    re.IGNORECASE,
)
# "Rate limit exceeded." but not "Rate limit exceeded errors are handled now".
_SENTENCE_END = re.compile(r"\Z| ?[^\w\s'\"`/_]| (?:for|or|and)\b")
_LONG_WINDOW = re.compile(r"\b(?:weekly|week|monthly|month|seven[ _-]day|7[ _-]day)\b", re.IGNORECASE)


@frozen(kw_only=True)
class _Ruling:
    """The class with what decided it; `reset` as in Phrase."""

    failure: FailureClass
    why: str
    reset: str = ""
    usage_over: float | None = None


def classify(
    signal: ErrorSignal,
    wording: Wording,
    *,
    now: datetime,
    zone: tzinfo,
    printed_at: datetime | None = None,
) -> Verdict:
    """Judge an error.

    Args:
        signal: the error as reported; a text of any kind and length.
        wording: the provider's table.
        now: aware; stands for the time of printing where that is not known.
        zone: the zone of the CLI's process, for clocks that name none.
        printed_at: when the words were printed, if known (aware). With it, a clock means the first such
            clock after that instant. Without it, a clock that has just passed is taken to be due.

    Returns:
        The verdict; FailureClass.NONE for what is no failure. Its instant is never before `now`; one
        equal to `now` means due now. `reset_rule` None: no wait clears this.
    """
    nothing = _unheard(signal)
    if nothing:
        return Verdict(failure=FailureClass.NONE, why=nothing)
    ruling, facts = _rule(signal, wording)
    if ruling is None:
        return Verdict(failure=FailureClass.NONE, why=f"{signal.channel}: nothing that means a failure")
    return _dated(ruling, signal, facts, now=now, zone=zone, printed_at=printed_at)


def as_failed(verdict: Verdict) -> Verdict:
    """The verdict on a turn that is known to have failed: what means nothing is then OTHER."""
    if verdict.failure is not FailureClass.NONE:
        return verdict
    return evolve(verdict, failure=FailureClass.OTHER, why="the turn failed without known words")


def failure_counts_against_breaker(failure: FailureClass) -> bool:
    """The failure speaks against the provider's health; several in a row open its breaker.

    A usage limit opens the breaker until its reset instead, and auth isolates the account; a refusal
    and a full context concern the task alone.
    """
    return failure in TRANSIENT or failure is FailureClass.OTHER


def _unheard(signal: ErrorSignal) -> str:
    if signal.channel is Channel.SPOKEN:
        return "spoken text is never a failure"
    if signal.channel is Channel.STDERR and signal.clean_end:
        return "stderr of a process that did not fail"
    return ""


def _rule(signal: ErrorSignal, wording: Wording) -> tuple[_Ruling | None, Facts]:
    told = _told(signal)
    if signal.channel is Channel.HEADER:
        facts = header_facts(signal.text, signal.http_status)
        if facts.talk or not facts.failed:
            return None, facts
        return _judge(facts, signal, wording, known=True), facts
    record = record_facts(signal.text)
    if record is not None:
        if record.talk and not told:
            return None, record
        facts = evolve(record, words=flatten(record.words).text[:_LONGEST_WORDS])
        return _judge(facts, signal, wording, known=True), facts
    flat = flatten(signal.text, tail=signal.channel is Channel.STDERR)
    if told or signal.channel is Channel.HTTP_BODY:
        facts = inner_facts(flat.text[:_LONGEST_WORDS])
        return _judge(facts, signal, wording, known=True), facts
    return _heard(flat, signal, wording)


def _told(signal: ErrorSignal) -> bool:
    """Something besides the text says that this is an error."""
    failed = signal.http_status is not None and signal.http_status >= 400
    return failed or bool(signal.code) or signal.resets_at is not None or signal.retry_after is not None


def _heard(flat: Flat, signal: ErrorSignal, wording: Wording) -> tuple[_Ruling | None, Facts]:
    """Words alone: at the head of the text, or of any line of stderr, where the last one counts."""
    on_stderr = signal.channel is Channel.STDERR
    for head in heads_of(flat, every_line=on_stderr):
        if not head.announced and not _speaks(flat, head, wording, whole=not on_stderr):
            continue
        facts = inner_facts(flat.text[head.start : head.start + _WINDOW])
        ruling = _judge(facts, signal, wording, known=head.api or on_stderr)
        if ruling is not None:
            return ruling, facts
    return None, Facts()


def _speaks(flat: Flat, head: Head, wording: Wording, *, whole: bool) -> bool:
    """Words of a table stand at the head; `whole`: the common ones must be a sentence of their own."""
    if any(phrase.pattern.match(flat.text, head.words) for phrase in wording.phrases):
        return True
    matches = (phrase.pattern.match(flat.text, head.words) for phrase in GENERIC.phrases)
    return any(not whole or _SENTENCE_END.match(flat.text, found.end()) for found in matches if found)


def _phrases(wording: Wording) -> Iterator[Phrase]:
    yield from wording.phrases
    yield from GENERIC.phrases


def _judge(facts: Facts, signal: ErrorSignal, wording: Wording, *, known: bool) -> _Ruling | None:
    """The ruling; None for no failure. `known`: it is an error even if no word of it is known."""
    words = facts.words
    status = signal.http_status or facts.status or _status_in(words)
    codes = tuple(code for code in (signal.code, *facts.codes) if code)
    heard = [(phrase, found) for phrase in _phrases(wording) if (found := phrase.pattern.search(words))]
    if any(phrase.failure is FailureClass.NONE for phrase, _ in heard):
        return None
    by_code = _by_code(codes, wording)
    for phrase, found in heard:
        if by_code is not None and phrase.failure is by_code.failure:
            return evolve(by_code, reset=by_code.reset or phrase.reset)
        if by_code is None and allowed_by(status, phrase.failure):
            why = f'{signal.channel}: "{found[0][:80]}"'
            return _Ruling(failure=phrase.failure, why=why, reset=phrase.reset, usage_over=phrase.usage_over)
    if by_code is not None:
        return by_code
    for code in codes:
        weak = wording.weak_codes.get(plain_code(code)) or GENERIC.weak_codes.get(plain_code(code))
        if weak is not None and allowed_by(status, weak):
            return _Ruling(failure=weak, why=f"code {flatten(code[:60]).text}")
    by_status = status_class(status)
    if by_status is not None:
        return _Ruling(failure=by_status, why=f"HTTP {status}")
    if not known:
        return None
    return _Ruling(failure=FailureClass.OTHER, why=f"{signal.channel}: an error of unknown kind")


def _by_code(codes: tuple[str, ...], wording: Wording) -> _Ruling | None:
    """What the codes decide by themselves; the provider's table comes before the generic one."""
    for table in (wording, GENERIC):
        for code in codes:
            key, phrase = plain_code(code), None
            failure = table.codes.get(key)
            if failure is None:
                phrase = next((p for p in table.code_phrases if p.pattern.search(code)), None)
                failure = phrase.failure if phrase else None
            if failure is not None:
                rule = wording.code_resets.get(key) or GENERIC.code_resets.get(key)
                reset = rule or (phrase.reset if phrase else "")
                return _Ruling(failure=failure, why=f"code {flatten(code[:60]).text}", reset=reset)
    return None


def _status_in(words: str) -> int | None:
    found = _STATUS.search(words)
    return int(found["status"]) if found else None


def _dated(
    ruling: _Ruling,
    signal: ErrorSignal,
    facts: Facts,
    *,
    now: datetime,
    zone: tzinfo,
    printed_at: datetime | None,
) -> Verdict:
    """The verdict with its reset rule and instant."""
    failure = ruling.failure
    exact, told, fallback = _rules(ruling, signal, facts)
    if told and told.startswith("in:") and fallback and not fallback.startswith("unknown:"):
        # A throttle's short wait rides along on the refusal of a daily or monthly quota.
        told = None
    rule = exact or told or fallback
    if ruling.usage_over is not None and _wait(rule) > ruling.usage_over:
        failure = FailureClass.USAGE_LIMIT
    if failure is FailureClass.USAGE_LIMIT:
        default = PROBE
        if rule is not None and rule.startswith("in:") and _wait(rule) < NO_TIME_UNDER:
            rule = None
    elif failure in TRANSIENT:
        default = BACKOFF
        rule = None if rule == PROBE else rule
    else:
        return Verdict(failure=failure, why=ruling.why)
    if ruling.reset == NO_WAIT and not exact:
        return Verdict(failure=failure, why=ruling.why)
    strict = rule is fallback or _LONG_WINDOW.search(facts.words) is not None
    at = instant_of(rule, now=now, zone=zone, printed_at=printed_at, strict=strict)
    if at is None:
        return Verdict(failure=failure, reset_rule=default, why=ruling.why)
    return Verdict(failure=failure, reset_rule=rule, resets_at=at, why=ruling.why)


def _rules(ruling: _Ruling, signal: ErrorSignal, facts: Facts) -> tuple[str | None, str | None, str | None]:
    """Reset rules in order of trust: an exact instant, what else was told, what holds otherwise."""
    exact = None
    if signal.resets_at is not None and signal.resets_at.tzinfo is not None:
        exact = f"epoch:{int(signal.resets_at.astimezone(UTC).timestamp())}"
    waited = seconds_rule(signal.retry_after) if signal.retry_after is not None else None
    told = waited or facts.wait or rule_in(facts.words)
    fallback = ruling.reset if ruling.reset not in ("", NO_WAIT) else None
    return exact or facts.until, told, fallback


def _wait(rule: str | None) -> float:
    wait = duration_of(rule.removeprefix("in:")) if rule and rule.startswith("in:") else None
    return wait.total_seconds() if wait is not None else 0.0


def limit_in_words(failure: str, why: str) -> str:
    """A limit that an agent met, for people: what sort of failure it is, and by what that was told.

    Args:
        failure: a value of `FailureClass`.
    """
    if failure in (FailureClass.OTHER, FailureClass.NONE):
        return why
    return f"{failure.removesuffix('_transient').replace('_', ' ')} ({why})"
