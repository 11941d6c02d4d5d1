"""The documentation tells all there is: routes, errors, events; and what it promises of imports is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from relay.api.app import ROUTES
from relay.core.attempts import FailedAttempt
from relay.core.detect import AgentStatus, DetectedAgent, agent_view
from relay.core.events import PlanItem
from relay.core.facts import CommandRun, LimitSeen
from relay.core.failures import FailureClass
from relay.core.intel import SessionIntel, SpokenTurn
from relay.errors import RelayError
from relay.providers.table import provider_names

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FRAMEWORKS = (
    "trio",
    "quart",
    "quart_trio",
    "hypercorn",
    "thespian",
    "click",
    "rich",
    "prompt_toolkit",
    "httpx2",
)


def text(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def documented_routes() -> set[tuple[str, str]]:
    """`GET /a`, `/b` in one cell of the table are two routes of the same method."""
    found: set[tuple[str, str]] = set()
    for line in text("http-api.md").split("\n"):
        if not line.startswith("| `"):
            continue
        method = ""
        for piece in re.findall(r"`([^`]+)`", line.split("|")[1]):
            words = piece.split()
            method = words[0] if len(words) == 2 and words[0].isupper() else method
            if words[-1].startswith("/"):
                found.add((method, words[-1]))
    return found


def test_every_route_is_documented() -> None:
    assert documented_routes() == {(route.method, route.path) for route in ROUTES} | {
        ("GET", "/api/openapi.json")
    }


def test_every_query_parameter_is_documented() -> None:
    rows = {row.split("|")[1]: row for row in text("http-api.md").split("\n") if row.startswith("| `")}
    for route in ROUTES:
        cell = next(
            cell for cell in rows if f"{route.method} {route.path}`" in cell or f"`{route.path}`" in cell
        )
        for name in route.query:
            assert f"{name}=" in cell, (route.path, name)


def names(value: object) -> set[str]:
    """The names in a JSON value, however deep."""
    if isinstance(value, dict):
        return {name for key, inner in value.items() for name in (key, *names(inner))}
    return {name for inner in value for name in names(inner)} if isinstance(value, list) else set()


def test_every_field_of_an_agent_session_is_documented() -> None:
    section = text("http-api.md").partition("## An agent session")[2].partition("\n## ")[0]
    told = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", section))))
    full = SessionIntel(
        store="claude",
        home="",
        native_id="",
        path="",
        plan=(PlanItem(text=""),),
        commands=(CommandRun(command="", exit_code=0, ok=True),),
        failed_attempts=(FailedAttempt(what="", why=""),),
        limits=(LimitSeen(run=1, failure=FailureClass.OTHER, why=""),),
        turns=(SpokenTurn(role="", text=""),),
    )

    shown = names(agent_view(DetectedAgent(intel=full, status=AgentStatus.IDLE), full=True))

    assert {"takeOver", "intel", "exitCode", "why", "resetsAt", "at", "cachedInput"} <= shown <= told
    assert set(AgentStatus) <= set(re.findall(r"`([^`]+)`", section))


def test_every_error_code_is_documented() -> None:
    def codes(cls: type[RelayError]) -> set[str]:
        return {cls.code} | {code for sub in cls.__subclasses__() for code in codes(sub)}

    told = set(re.findall(r"`(\w+)`", text("http-api.md")))
    # What a client says when it finds no daemon is no answer of a daemon.
    assert codes(RelayError) - {"no_daemon"} <= told


def test_every_type_of_event_is_documented() -> None:
    sources = "".join(
        path.read_text("utf-8")
        for part in ("core", "actors")
        for path in (ROOT / "relay" / part).glob("*.py")
    )
    written = set(re.findall(r'self\._(?:note|entry)\(\s*[\w.]+,\s*"(\w+)"', sources))
    written |= set(re.findall(r'JournalEntry\([^)]*?type="(\w+)"', sources))
    assert {"fsm", "agent_event", "snapshot", "actor_crashed"} <= written
    table = text("http-api.md").partition("| type | data |")[2]
    cells = [row.split("|")[1] for row in table.split("\n") if row.startswith("| `")]
    told = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert written <= told


def test_every_provider_is_documented() -> None:
    page = text("providers.md")
    for name in provider_names():
        assert f"`{name}`" in page or f"## {name}" in page, name


def test_the_two_commands_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    told = re.findall(r"^ {4}make (\w+)", readme, re.MULTILINE)
    assert {"demo", "test"} <= set(told)
    assert set(told) <= targets


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`((?:relay|tests|docs|bench)/[\w/]+\.(?:py|md|json))`", page.read_text("utf-8"))
    for name in named:
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("package", ["core", "providers", "store"])
def test_the_lower_layers_load_no_framework(package: str) -> None:
    modules = sorted(
        str(path.relative_to(ROOT).with_suffix("")).replace("/", ".")
        for path in (ROOT / "relay" / package).rglob("*.py")
        if path.name != "__init__.py"
    )
    script = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        f"print(*[name for name in {FRAMEWORKS!r} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True)
    assert ran.stdout.decode().split() == []


@pytest.mark.parametrize("command", [("--version",), ("--help",)], ids=" ".join)
def test_small_answers_load_neither_server_nor_actors(command: tuple[str, ...]) -> None:
    script = (
        "import sys\n"
        f"sys.argv = ['relay', *{command!r}]\n"
        "from relay.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = ('trio', 'quart', 'thespian', 'hypercorn', 'pygit2', 'rich', 'psutil')\n"
        "sys.exit(' '.join(name for name in heavy if name in sys.modules) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    assert b"relay" in ran.stdout
