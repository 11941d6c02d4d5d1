"""What a rule for one kind of secret is, and how it is tried at a place of a text.

A rule is noticed by a *pivot*, one literal character that every secret of the kind holds at a known place,
and an *anchor*, a regular expression tested right behind the pivot. `relay.core.redact` joins all anchors
of a pivot into one expression that starts with a literal, which CPython searches at memchr speed; a rule's
own pattern runs only where its anchor was seen. The table is in `relay.core.redact_rules`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import frozen

from relay.core.redact_finders import LEFT, Span


@frozen(kw_only=True)
class Rule:
    """One kind of secret.

    Args:
        kind: stable id, shown in the marker.
        vendor: whose secret it is, for people.
        pivot: one literal character (lower case when `folded`) at which the kind is noticed.
        anchor: expression tested just behind the pivot; may look behind.
        pattern: expression matched at `pivot position - back`, for each `back` in turn.
        back: characters from the start of the pattern to the pivot.
        group: the group that is replaced; 0 for the whole match.
        folded: pivot and anchor are searched in the lower-cased text.
        near: the two characters before the pivot, when at least ten of [A-Za-z0-9_-] follow the pivot;
            lets the prefilter skip faster.
        keep: says of a matched text that it is a secret after all.
        find: replaces pattern and back: (text, pivot position) to span or None. An empty span means: no
            secret, and nothing of this rule before its end.
    """

    kind: str
    vendor: str
    pivot: str
    anchor: str
    pattern: str = ""
    back: tuple[int, ...] = (0,)
    group: int = 0
    folded: bool = False
    near: str = ""
    keep: Callable[[str], bool] | None = None
    find: Callable[[str, int], Span | None] | None = None

    def locate(self, text: str, at: int) -> Span | None:
        """The span to replace for the pivot at index `at` of `text`, or None when it is no secret."""
        if self.find is not None:
            return self.find(text, at)
        # Compiled when first needed (re keeps it): all of them would cost every start 0.1 s.
        pattern = re.compile(self.pattern)
        for back in self.back:
            if back > at:
                continue
            found = pattern.match(text, at - back)
            if found is not None:
                if self.keep is not None and not self.keep(found[self.group]):
                    return None
                return found.span(self.group)
        return None


def prefixed(kind: str, vendor: str, head: str, body: str, *, pivot: int | None = None) -> Rule:
    """A rule for a token that begins with a literal.

    Args:
        kind: as in Rule.
        vendor: as in Rule.
        head: the literal beginning.
        body: expression for what follows.
        pivot: index in `head` of the pivot; the last character when that is one of "_-.", else the first.
    """
    at = pivot if pivot is not None else (len(head) - 1 if head[-1] in "_-." else 0)
    behind = f"(?<={re.escape(head[: at + 1])})" if at else ""
    return Rule(
        kind=kind,
        vendor=vendor,
        pivot=head[at],
        anchor=behind + re.escape(head[at + 1 :]),
        pattern=LEFT + re.escape(head) + body,
        back=(at,),
        near=head[at - 2 : at] if at >= 2 and at == len(head) - 1 else "",
    )
