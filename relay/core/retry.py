"""What to do about a judged failure: try again, hand off, wait for a reset, or ask the user.

Pure: time, the number of tries and the random number are arguments. Called by `relay.core.session`;
`classify`, which judges the failure, is of `relay.core.failures` and named here for its callers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from attrs import frozen

from relay.core.events import FailureClass, Verdict
from relay.core.failures import as_failed, classify, failure_counts_against_breaker
from relay.core.policies import Prefer, RetryPolicy

__all__ = [
    "AskUser",
    "Decision",
    "GoOn",
    "HandOff",
    "Prefer",
    "Retry",
    "RetryPolicy",
    "Wait",
    "as_failed",
    "classify",
    "decide",
    "explain",
    "failure_counts_against_breaker",
]

PROBE_MINUTES = (15, 30, 60)
SHORT_RESET = timedelta(minutes=2)
LONG_RETRY_AFTER = timedelta(minutes=5)
LONGEST_BACKOFF = 300.0


@frozen(kw_only=True)
class Retry:
    """Ask the same agent again at `at` (aware) with `message`."""

    at: datetime
    message: str
    why: str = ""


@frozen(kw_only=True)
class HandOff:
    """Let the next account or provider go on."""

    why: str


@frozen(kw_only=True)
class Wait:
    """Nobody else can go on: wait until `until` (aware), then try again."""

    until: datetime
    why: str


@frozen(kw_only=True)
class AskUser:
    """Only a person can mend this."""

    why: str
    hint: str


@frozen(kw_only=True)
class GoOn:
    """No failure: nothing to do."""


Decision = Retry | HandOff | Wait | AskUser | GoOn


def decide(
    verdict: Verdict,
    policy: RetryPolicy,
    *,
    now: datetime,
    attempt: int,
    has_fallback: bool,
    random: float,
) -> Decision:
    """What to do about a failure.

    Args:
        verdict: the failure, judged.
        now: aware.
        attempt: tries already made for this failure, 0 at first.
        has_fallback: another account or provider can take over. For a refusal the caller says False
            once the refusal has been handed on, so that it does not make the round of all providers.
        random: 0 to 1, for the jitter.
    """
    match verdict.failure:
        case FailureClass.NONE:
            return GoOn()
        case FailureClass.AUTH:
            return AskUser(why="the login was refused", hint="Sign in again, then resume the session.")
        case FailureClass.CONTEXT_OVERFLOW:
            return HandOff(why="the context is full: go on with a fresh one from the brief")
        case FailureClass.REFUSAL:
            return _else(
                has_fallback, "the model refused", "Word the task differently, or choose another model."
            )
        case FailureClass.USAGE_LIMIT:
            return _usage_limit(verdict, policy, now, attempt, has_fallback)
        case FailureClass.OTHER:
            if attempt > 0 or not policy.enabled:
                return _else(has_fallback, "it failed again", "Look at the session's log, then resume it.")
            return _again(
                policy, now, attempt, random, timedelta(0), "once more, since the failure is of no known kind"
            )
    return _transient(verdict, policy, now, attempt, has_fallback, random)


def _usage_limit(
    verdict: Verdict, policy: RetryPolicy, now: datetime, attempt: int, has_fallback: bool
) -> Decision:
    if verdict.resets_at is None and verdict.reset_rule is None:
        return _else(
            has_fallback, "the account has no credit left", "Add credit or raise the cap, then resume."
        )
    if not policy.enabled:
        return _else(has_fallback, "the usage limit is reached", "Resume the session after the reset.")
    until, what = _usage_reset(verdict, policy, now, attempt)
    longest = timedelta(minutes=policy.max_wait_minutes)
    if has_fallback:
        patience = {Prefer.WAIT.value: longest, Prefer.HANDOFF.value: None}.get(policy.prefer, SHORT_RESET)
        left = until - now - timedelta(seconds=policy.margin_seconds)
        if patience is None or left > patience:
            return HandOff(why=f"the usage limit is reached; {what}")
    if until - now > longest:
        return Wait(
            until=until, why=f"{what}: longer than the {policy.max_wait_minutes:g} minutes set as the most"
        )
    return Wait(until=until, why=what)


def _usage_reset(verdict: Verdict, policy: RetryPolicy, now: datetime, attempt: int) -> tuple[datetime, str]:
    margin = timedelta(seconds=policy.margin_seconds)
    at = verdict.resets_at
    if at is not None and at > now:
        return at + margin, f"it resets at {_shown(at)}"
    if at is not None and attempt == 0:
        return now + margin, "its reset is due by now"
    # A time that was due and did not help is no better than none: look again, ever less often.
    tried = attempt if at is None else attempt - 1
    minutes = PROBE_MINUTES[min(max(tried, 0), len(PROBE_MINUTES) - 1)]
    return now + timedelta(minutes=minutes), f"no reset time is known: tried again in {minutes} minutes"


def _transient(
    verdict: Verdict, policy: RetryPolicy, now: datetime, attempt: int, has_fallback: bool, random: float
) -> Decision:
    name = verdict.failure.value.replace("_", " ")
    if verdict.failure is FailureClass.NETWORK and verdict.reset_rule is None and verdict.resets_at is None:
        return _else(
            has_fallback, "the provider cannot be reached from here", "Check the network, then resume."
        )
    if not policy.enabled or attempt >= policy.max_retries:
        tries = f"{name} after {attempt} tries" if attempt else name
        return _else(has_fallback, tries, "Resume the session when the provider works again.")
    floor = max(verdict.resets_at - now, timedelta(0)) if verdict.resets_at else timedelta(0)
    if has_fallback and floor > LONG_RETRY_AFTER and policy.prefer != Prefer.WAIT:
        minutes = floor.total_seconds() / 60
        return HandOff(why=f"{name}: the provider asks for {minutes:.0f} minutes, a handoff is cheaper")
    return _again(policy, now, attempt, random, floor, name)


def _again(
    policy: RetryPolicy, now: datetime, attempt: int, random: float, floor: timedelta, why: str
) -> Retry:
    base = min(max(policy.backoff_seconds, 0.0) * 2 ** min(max(attempt, 0), 16), LONGEST_BACKOFF)
    part = policy.jitter_pct / 100
    delay = timedelta(seconds=max(base * (1 + part * (2 * random - 1)), 0.0))
    if delay < floor:
        # Never before what the provider asked for, and not everyone at that very instant.
        delay = floor + timedelta(seconds=max(base * part * random, 0.0))
    return Retry(at=now + delay, message=policy.retry_message, why=f"{why}; try {attempt + 1}")


def _else(has_fallback: bool, why: str, hint: str) -> Decision:
    return HandOff(why=why) if has_fallback else AskUser(why=why, hint=hint)


def explain(verdict: Verdict, decision: Decision) -> str:
    """One or two sentences for people: what the failure is, and what follows from it."""
    known = f" ({verdict.why})" if verdict.why else ""
    if isinstance(decision, GoOn):
        return f"No failure{known}."
    when = f", which resets at {_shown(verdict.resets_at)}" if verdict.resets_at else ""
    what = f"{_NAMES[verdict.failure]}{when}{known}."
    match decision:
        case Retry():
            then = f"The same agent is asked again at {_shown(decision.at)}."
        case HandOff():
            then = f"The work is handed off: {decision.why}."
        case Wait():
            then = f"The session waits until {_shown(decision.until)}: {decision.why}."
        case _:
            then = f"The session stops and asks: {decision.why}. {decision.hint}"
    return f"{what} {then}"


_NAMES = {
    FailureClass.USAGE_LIMIT: "A usage limit",
    FailureClass.RATE_LIMIT: "A passing rate limit",
    FailureClass.OVERLOAD: "The provider is overloaded",
    FailureClass.AUTH: "The login does not work",
    FailureClass.CONTEXT_OVERFLOW: "The model's context is full",
    FailureClass.NETWORK: "The network failed",
    FailureClass.REFUSAL: "The model refused",
    FailureClass.NONE: "No failure",
    FailureClass.OTHER: "A failure of no known kind",
}


def _shown(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
