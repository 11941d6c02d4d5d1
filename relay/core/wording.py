"""How a provider words its failures: patterns as data, matched by `relay.core.retry`.

Each provider module owns its table; `relay.core.retry` knows the algorithm and the generic table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import field, frozen

from relay.core.events import FailureClass


@frozen(kw_only=True)
class Phrase:
    """A pattern that means a failure class when it comes over a channel that can carry one."""

    failure: FailureClass
    pattern: re.Pattern[str]


@frozen(kw_only=True)
class Wording:
    """One provider's table.

    Args:
        codes: the provider's error codes, to classes.
        phrases: tried in order, first match wins, before the generic ones.
    """

    codes: Mapping[str, FailureClass] = field(factory=dict)
    phrases: tuple[Phrase, ...] = ()
