"""The table of stores: where the sessions of all known agents lie, by name.

Adding one is a module beside this file and a line in `_STORES`. Detection, adoption and the evaluation
suite ask here; modules are imported when first asked for.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from relay.errors import UnknownProviderError
from relay.providers.store_protocol import SessionStore

_STORES: dict[str, tuple[str, str]] = {
    "claude": ("relay.providers.claude_store", "ClaudeStore"),
    "codex": ("relay.providers.codex_store", "CodexStore"),
    "gemini": ("relay.providers.gemini_store", "GeminiStore"),
    "opencode": ("relay.providers.opencode_store", "OpenCodeStore"),
    "copilot": ("relay.providers.copilot_store", "CopilotStore"),
    "qwen": ("relay.providers.qwen_store", "QwenStore"),
    "copilot-chat": ("relay.providers.copilot_chat_store", "CopilotChatStore"),
    "cursor": ("relay.providers.cursor_store", "CursorStore"),
    "cursor-agent": ("relay.providers.cursor_agent_store", "CursorAgentStore"),
    "cline": ("relay.providers.cline_store", "ClineStore"),
    "roo": ("relay.providers.roo_store", "RooStore"),
    "continue": ("relay.providers.continue_store", "ContinueStore"),
    "aider": ("relay.providers.aider_store", "AiderStore"),
    "antigravity": ("relay.providers.antigravity_store", "AntigravityStore"),
}
"""Name -> module and class, in the order in which they are searched."""


def store_names() -> tuple[str, ...]:
    """The names of all stores."""
    return tuple(_STORES)


@cache
def store_named(name: str) -> SessionStore:
    """The store of that name; the same value at every call.

    Raises:
        UnknownProviderError: there is none.
    """
    if name not in _STORES:
        raise UnknownProviderError(
            f"there is no session store named {name!r}", hint=f"stores: {', '.join(_STORES)}"
        )
    module, class_name = _STORES[name]
    store: SessionStore = getattr(import_module(module), class_name)()
    return store
