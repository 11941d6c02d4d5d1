"""How many tokens were spent. Told by events, counted by facts, shown by `relay detect`."""

from __future__ import annotations

from attrs import frozen


@frozen(kw_only=True)
class TokenUsage:
    """Tokens, each counted once: `cached_input` is not part of `input`."""

    input: int = 0
    cached_input: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        """All tokens of this usage."""
        return self.input + self.cached_input + self.output
