"""How a provider words its failures: patterns as data, matched by `relay.core.failures`.

The tables of the providers are in `relay.providers.wordings`; `relay.core.generic_wording` holds the
words that many of them share, tried after a provider's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import field, frozen

from relay.core.events import FailureClass

NO_WAIT = "none"
"""A reset rule that says: no wait clears this, a person has to act (pay, sign in, move)."""


def plain_code(code: str) -> str:
    """An error code in the one spelling it is looked up by: `serverOverloaded` is `server_overloaded`."""
    return re.sub(r"[^a-z0-9]", "", code.lower())


def _by_plain_code(codes: Mapping[str, FailureClass]) -> Mapping[str, FailureClass]:
    return {plain_code(code): failure for code, failure in codes.items()}


def _rules_by_plain_code(rules: Mapping[str, str]) -> Mapping[str, str]:
    return {plain_code(code): rule for code, rule in rules.items()}


@frozen(kw_only=True)
class Phrase:
    """A pattern that means a failure class when it comes over a channel that can carry one.

    The pattern meets text with straight quotes and single spaces. Where nothing but the words says that
    this is an error, they must stand at the head of a line; so a pattern begins with the first word of
    the sentence (`(?:the )?model is overloaded`), not in its middle.

    Args:
        failure: the class. NONE means: known, and no failure, whatever else the text says.
        pattern: compiled, case ignored.
        reset: the reset rule that holds when the text tells no time: a rule of `relay.core.resets`,
            NO_WAIT, or "" for the class's own (a probe for a usage limit, a back-off for the transient).
        usage_over: seconds; a stated wait longer than this makes it a usage limit.
    """

    failure: FailureClass
    pattern: re.Pattern[str]
    reset: str = ""
    usage_over: float | None = None


@frozen(kw_only=True)
class Wording:
    """One provider's table.

    Args:
        codes: the provider's error codes, to classes; these decide before any words. Spelling as the
            provider has it; case and separators do not matter.
        weak_codes: codes that say too little by themselves (one code for a plan limit and a throttle);
            words and the HTTP status come first.
        code_phrases: patterns searched in each code, tried after `codes`.
        code_resets: for a code, the rule when no time is told.
        phrases: tried in order, first match wins, before the generic ones.
    """

    codes: Mapping[str, FailureClass] = field(factory=dict, converter=_by_plain_code)
    weak_codes: Mapping[str, FailureClass] = field(factory=dict, converter=_by_plain_code)
    code_phrases: tuple[Phrase, ...] = ()
    code_resets: Mapping[str, str] = field(factory=dict, converter=_rules_by_plain_code)
    phrases: tuple[Phrase, ...] = ()


def says(failure: FailureClass, pattern: str, *, reset: str = "", usage_over: float | None = None) -> Phrase:
    """A phrase from a pattern as written in a table: case ignored."""
    return Phrase(
        failure=failure, pattern=re.compile(pattern, re.IGNORECASE), reset=reset, usage_over=usage_over
    )
