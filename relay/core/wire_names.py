"""How names look on the wire. Apart from `relay.core.wire`, whose converter takes long to import."""

from __future__ import annotations


def camel(name: str) -> str:
    """`resets_at` -> `resetsAt`."""
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)
