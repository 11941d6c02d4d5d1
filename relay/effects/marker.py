"""How a run's processes are known; apart from what uses it, so that a scan for agents imports little."""

from __future__ import annotations

MARKER = "RELAY_RUN"
"""The environment variable that every process of a run inherits."""
