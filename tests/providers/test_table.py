from __future__ import annotations

import subprocess
import sys

import pytest

from relay.errors import UnknownProviderError
from relay.providers.table import provider_named, provider_names


def test_every_name_gives_a_provider_of_that_name() -> None:
    assert "codex" in provider_names()
    assert {name: provider_named(name).name for name in ("codex", "scripted")} == {
        "codex": "codex",
        "scripted": "scripted",
    }


@pytest.mark.parametrize(
    ("name", "want_hint"),
    [
        ("codx", "did you mean codex? providers: claude, codex, scripted"),
        ("Claude", "did you mean claude? providers: claude, codex, scripted"),
        ("zzz", "providers: claude, codex, scripted"),
        ("", "providers: claude, codex, scripted"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(name: str, want_hint: str) -> None:
    with pytest.raises(UnknownProviderError) as caught:
        provider_named(name)
    assert caught.value.message == f"there is no provider named {name!r}"
    assert caught.value.hint == want_hint


def test_the_table_alone_imports_no_provider() -> None:
    code = (
        "import sys; from relay.providers.table import provider_names; provider_names();"
        "print([m for m in sys.modules if m in ('relay.providers.codex', 'relay.providers.scripted')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
