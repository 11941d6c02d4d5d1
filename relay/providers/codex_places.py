"""Where rollouts lie in Codex's home folder, by the end of their names.

Used by `relay.providers.codex_store` and, for the origins of forks, by `relay.providers.codex_rollout`.
"""

from __future__ import annotations

PLACES = (
    "sessions/*/*/*/rollout-*{}.jsonl",
    "archived_sessions/rollout-*{}.jsonl",
    "sessions/rollout-*{}.jsonl",
)
"""Patterns with a place for it."""
