"""Who is next: the user's order, siblings first."""

from __future__ import annotations

import pytest

from relay.core.chain import Target, candidates, parse_target
from relay.errors import ConfigError


def t(text: str) -> Target:
    provider, account = parse_target(text)
    return Target(provider=provider, account=account or "default")


CHAIN = tuple(t(name) for name in ("claude/a", "claude/b", "codex", "gemini"))
CASES = {
    "before the first run the chain stands as it is": (None, False, "claude/a claude/b codex gemini"),
    "the provider's other account comes first": ("claude/a", False, "claude/b codex gemini"),
    "then the chain goes on": ("codex", False, "gemini claude/a claude/b"),
    "after the last the first come again": ("gemini", False, "claude/a claude/b codex"),
    "a full context begins with the same target": ("claude/b", True, "claude/b claude/a codex gemini"),
    "a target outside the chain leads into it": ("qwen", False, "claude/a claude/b codex gemini"),
}


@pytest.mark.parametrize(("current", "include", "want"), CASES.values(), ids=CASES.keys())
def test_candidates(current: str | None, include: bool, want: str) -> None:
    got = candidates(CHAIN, t(current) if current else None, include_current=include)

    assert " ".join(str(target) for target in got) == want


def test_a_provider_name_inside_another_word_means_nothing() -> None:
    chain = (t("go"), t("gopher"))

    assert candidates(chain, t("go")) == (t("gopher"),)


@pytest.mark.parametrize("text", ["", "Claude", "claude/", "a b", "-x", "claude/../x", "claude/a/b", "1x"])
def test_what_is_no_target_is_refused_with_its_value(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_target(text)

    assert caught.value.hint
