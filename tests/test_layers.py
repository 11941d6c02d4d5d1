"""The import arrows of the architecture, and what a package may not reach for."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "relay"
MAY_IMPORT = {
    "errors": set(),
    "version": set(),
    "core": {"errors"},
    "providers": {"errors", "version", "core"},
    "store": {"errors", "core"},
    "effects": {"errors", "version", "core", "providers", "store"},
    "actors": {"errors", "core", "providers"},
    "api": {"errors", "version", "core", "store", "actors"},
    "cli": {
        "errors",
        "version",
        "core",
        "store",
        "api",
        "daemon",
        "detection",
        "doctor",
        "evaluation",
        "providers",
    },
    "evaluation": {"errors", "core", "providers", "store", "effects"},
    "doctor": {"errors", "version", "core", "providers", "store", "effects"},
    "detection": {"errors", "core", "providers", "store", "effects"},
    "scripted_agent": set(),
    "daemon": {"errors", "version", "core", "providers", "store", "effects", "actors", "api"},
    "__main__": {"errors", "version", "cli"},
}
FORBIDDEN = {
    "core": {
        "trio",
        "quart",
        "thespian",
        "subprocess",
        "socket",
        "os",
        "logging",
        "time",
        "asyncio",
        "httpx2",
    },
    "providers": {"trio", "quart", "thespian", "subprocess", "socket", "asyncio"},
    "actors": {"subprocess", "socket", "asyncio", "os", "pathlib", "time"},
    "store": {"trio", "quart", "thespian", "asyncio"},
    "api": {"subprocess", "asyncio", "thespian"},
    "cli": {"asyncio", "trio", "thespian"},
}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def package(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            if node.module == "relay":
                found.update(f"relay.{alias.name}" for alias in node.names)
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_arrows(path: Path) -> None:
    own = package(path)
    if own == "__init__":
        return
    reached = {name.split(".")[1] for name in imports(path) if name.startswith("relay.")}

    assert reached - MAY_IMPORT[own] - {own} == set()


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_packages_keep_to_their_means(path: Path) -> None:
    forbidden = FORBIDDEN.get(package(path), set())
    top = {name.split(".")[0] for name in imports(path)}
    if path.name == "facade.py":
        forbidden = forbidden - {"trio"}

    assert top & forbidden == set()


def test_providers_are_named_by_their_own_package_alone() -> None:
    shared = {"protocol", "table", "wordings", "store_protocol", "stores"}
    named = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules()
        if package(path) not in ("providers", "scripted_agent")
        for name in imports(path)
        if name.startswith("relay.providers.") and name.split(".")[2] not in shared
    ]

    assert named == []
