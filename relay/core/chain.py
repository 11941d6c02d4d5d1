"""The user's order of providers and accounts, and who is next.

Owned by the session rules; the provider pool then drops candidates whose breaker is open or whose
quota is breached. The user's own order always stands: nothing here looks at price.
"""

from __future__ import annotations

import re

from attrs import frozen

from relay.errors import ConfigError

NAME_SHAPE = re.compile(r"[a-z][a-z0-9_-]{0,31}")
LABEL_SHAPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")


@frozen(kw_only=True, order=True)
class Target:
    """One login of one provider: where a run can go.

    Args:
        provider: the provider's name.
        account: the account's label.
    """

    provider: str
    account: str = "default"

    def __str__(self) -> str:
        return self.provider if self.account == "default" else f"{self.provider}/{self.account}"


def parse_target(text: str) -> tuple[str, str | None]:
    """Split "provider" or "provider/account".

    Raises:
        ConfigError: a name or label of the wrong shape.
    """
    provider, slash, account = text.strip().partition("/")
    if not NAME_SHAPE.fullmatch(provider):
        raise ConfigError(
            f"provider {provider!r} is not a name",
            hint="write it as in `relay providers list`, for example claude or codex/work",
        )
    if slash and not LABEL_SHAPE.fullmatch(account):
        raise ConfigError(f"account {account!r} of {provider} is not a label", hint="use letters and digits")
    return provider, account if slash else None


def candidates(
    chain: tuple[Target, ...], current: Target | None, *, include_current: bool = False
) -> tuple[Target, ...]:
    """Where to go next, best first.

    The provider's other accounts come first (its own resume loses nothing), then the providers after
    it in the chain, then those before it (they may have reset meanwhile).

    Args:
        chain: every target in the user's order.
        current: where the session runs now; None before the first run.
        include_current: begin with the current target itself (a fresh context is enough).
    """
    if current is None:
        return chain
    siblings = tuple(t for t in chain if t.provider == current.provider and t != current)
    providers = list(dict.fromkeys(t.provider for t in chain))
    if current.provider in providers:
        at = providers.index(current.provider)
        providers = providers[at + 1 :] + providers[:at]
    others = tuple(t for name in providers for t in chain if t.provider == name)
    return ((current,) if include_current else ()) + siblings + others
