"""The table of providers: the one place that knows them all by name.

Everything outside this package asks for a provider here. Adding one is a module beside this file and a
line in `_PROVIDERS`; the module is imported when the provider is first asked for.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from relay.errors import UnknownProviderError

if TYPE_CHECKING:
    from relay.providers.protocol import Provider

_PROVIDERS = {
    "claude": ("relay.providers.claude", "Claude"),
    "codex": ("relay.providers.codex", "Codex"),
    "scripted": ("relay.providers.scripted", "Scripted"),
}
"""Name -> module and class, in the order in which they are shown and tried."""


def provider_names() -> tuple[str, ...]:
    """The names of all providers, in the order in which they are shown and tried."""
    return tuple(_PROVIDERS)


@cache
def provider_named(name: str) -> Provider:
    """The provider of that name; the same value at every call.

    Raises:
        UnknownProviderError: there is none; the hint names the nearest one and lists all.
    """
    if name not in _PROVIDERS:
        known = ", ".join(_PROVIDERS)
        near = difflib.get_close_matches(name.strip().lower(), _PROVIDERS, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise UnknownProviderError(f"there is no provider named {name!r}", hint=f"{guess}providers: {known}")
    module, class_name = _PROVIDERS[name]
    provider: Provider = getattr(import_module(module), class_name)()
    return provider
