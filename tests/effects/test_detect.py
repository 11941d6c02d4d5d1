"""The engine of detection over a store of the test's own, with real files and real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from relay.core.events import ToolCall, ToolKind, ToolResult
from relay.core.intel import Depth
from relay.effects.detect import Detector
from relay.effects.detect_cache import DetectCache
from relay.errors import NotFoundError
from relay.providers.store_protocol import Found, Live, Machine, RunningProcess, StoreFiles
from relay.providers.transcript import LineTranscript

HOUR_AGO = datetime.now(UTC) - timedelta(hours=1)


class ToyTranscript(LineTranscript):
    """Lines {"say"|"edit": ...}; counts what it reads."""

    def __init__(self, store: ToyStore, files: StoreFiles, found: Found, depth: Depth) -> None:
        self.store = store
        super().__init__(files, found, depth)

    def begin(self) -> None:
        self.lift.named(cwd=str(Path(self.found.home) / "app"))

    def take(self, line: bytes) -> None:
        self.store.lines += 1
        value = self.parsed(line)
        if value is None:
            return
        if "boom" in value:
            raise RuntimeError("boom")
        if "say" in value:
            self.lift.said(value["say"], self.store.at)
        if "edit" in value:
            self.lift.take(
                ToolCall(call_id="1", tool="edit", tool_kind=ToolKind.EDIT, paths=(value["edit"],)),
                self.store.at,
            )
            self.lift.take(ToolResult(call_id="1", ok=True), self.store.at)


class ToyStore:
    name = "toy"
    provider = ""
    display_name = "Toy"

    def __init__(self, home: Path) -> None:
        self.home = home
        self.lines = 0
        self.at = HOUR_AGO
        self.registry: list[Live] = []

    def homes(self, machine: Machine) -> tuple[str, ...]:
        return (str(self.home), *machine.accounts.get("toy", ()))

    def find(self, files: StoreFiles, home: str, since: float) -> Iterable[Found]:
        for entry in files.glob(home, "*.jsonl"):
            if entry.mtime >= since:
                yield Found(
                    store=self.name,
                    home=home,
                    native_id=Path(entry.path).stem,
                    paths=(entry.path,),
                    touched=entry.mtime,
                    stamp=f"{entry.size}:{entry.mtime}:{entry.identity}",
                    size=entry.size,
                )

    def open(self, files: StoreFiles, found: Found, depth: Depth) -> ToyTranscript:
        return ToyTranscript(self, files, found, depth)

    def live(self, files: StoreFiles, home: str) -> Iterable[Live]:
        return self.registry

    def runs(self, process: RunningProcess) -> bool:
        return "--toy-agent" in process.argv

    def resume_argv(self, native_id: str) -> tuple[str, ...]:
        return ()


@pytest.fixture
def store(tmp_path: Path) -> ToyStore:
    home = tmp_path / "toy"
    (home / "app").mkdir(parents=True)
    return ToyStore(home)


def detector(store: ToyStore, cache: DetectCache | None = None, **accounts: tuple[str, ...]) -> Detector:
    machine = Machine(env={}, home=str(store.home), accounts=accounts)
    return Detector(lambda: machine, cache=cache, stores=[store])


def write(store: ToyStore, name: str, *records: dict[str, Any], end: str = "\n") -> Path:
    path = store.home / f"{name}.jsonl"
    with path.open("a") as file:
        file.write("\n".join(json.dumps(record) for record in records) + end)
    return path


def day_ago() -> datetime:
    return datetime.now(UTC) - timedelta(days=1)


def test_what_is_new_is_read_and_nothing_else(store: ToyStore) -> None:
    write(store, "one", {"say": "goal"}, {"edit": "a.py"})
    write(store, "two", {"say": "other"})
    finder = detector(store)

    first = finder.scan(day_ago())
    assert (first.read, store.lines) == (2, 3)
    assert {a.id: (a.intel.first_prompt, a.intel.files_changed) for a in first.agents} == {
        "one": ("goal", ("a.py",)),
        "two": ("other", ()),
    }

    write(store, "one", {"edit": "b.py"})
    second = finder.scan(day_ago())
    assert (second.read, store.lines) == (1, 4)
    assert {a.id: a.intel.files_changed for a in second.agents}["one"] == ("a.py", "b.py")

    third = finder.scan(day_ago())
    assert (third.read, store.lines) == (0, 4)
    assert third.agents == second.agents


def test_what_was_read_is_remembered_across_starts(store: ToyStore, tmp_path: Path) -> None:
    write(store, "one", {"say": "goal"}, {"edit": "a.py"})
    path = tmp_path / "detected.json"
    before = detector(store, DetectCache(path)).scan(day_ago())
    lines = store.lines

    after = detector(store, DetectCache(path)).scan(day_ago())

    assert (after.read, store.lines) == (0, lines)
    assert after.agents == before.agents
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 99}', '{"format": 1, "sessions": {"x": 3}}'])
def test_a_cache_of_anything_else_is_read_anew(store: ToyStore, tmp_path: Path, content: str) -> None:
    write(store, "one", {"say": "goal"})
    path = tmp_path / "detected.json"
    path.write_text(content)

    assert [agent.id for agent in detector(store, DetectCache(path)).scan(day_ago()).agents] == ["one"]


DAMAGE: list[tuple[str, object]] = [
    ("files_changed", [1]),
    ("files_changed", "a.py"),
    ("first_prompt", 3),
    ("tokens", {"spent": 1}),
    ("tokens", {"input": "1"}),
    ("last_activity", "yesterday"),
    ("skipped", [["malformed"]]),
    ("no_field", ""),
]


@pytest.mark.parametrize(("name", "value"), DAMAGE)
def test_a_damaged_memory_of_a_session_is_read_anew(
    store: ToyStore, tmp_path: Path, name: str, value: object
) -> None:
    write(store, "one", {"say": "goal"}, {"edit": "a.py"})
    path = tmp_path / "detected.json"
    before = detector(store, DetectCache(path)).scan(day_ago())
    told = json.loads(path.read_text())
    [kept] = told["sessions"].values()
    kept["intel"][name] = value
    path.write_text(json.dumps(told))

    after = detector(store, DetectCache(path)).scan(day_ago())

    assert (after.read, after.agents, after.problems) == (1, before.agents, ())


def test_a_session_that_was_replaced_is_read_from_the_start(store: ToyStore) -> None:
    path = write(store, "one", {"say": "goal"}, {"edit": "a.py"})
    finder = detector(store)
    finder.scan(day_ago())

    path.write_text('{"say": "other"}\n')
    [agent] = finder.scan(day_ago()).agents

    assert (agent.intel.first_prompt, agent.intel.files_changed) == ("other", ())


def test_a_record_that_is_not_whole_yet_is_read_when_it_is(store: ToyStore) -> None:
    write(store, "one", {"say": "goal"})
    path = store.home / "one.jsonl"
    with path.open("a") as file:
        file.write('{"edit": "a.')
    finder = detector(store)
    [torn] = finder.scan(day_ago()).agents
    with path.open("a") as file:
        file.write('py"}\n')
    [whole] = finder.scan(day_ago()).agents

    assert (torn.intel.files_changed, torn.intel.skipped) == ((), (("torn", 1),))
    assert (whole.intel.files_changed, whole.intel.skipped) == (("a.py",), ())


def test_one_session_that_cannot_be_read_hides_no_other_and_is_said(store: ToyStore) -> None:
    write(store, "bad", {"say": "goal"}, {"boom": 1})
    write(store, "good", {"say": "goal"})

    scan = detector(store).scan(day_ago())

    assert [agent.id for agent in scan.agents] == ["good"]
    assert len(scan.problems) == 1
    assert "bad.jsonl" in scan.problems[0]
    assert "boom" in scan.problems[0]


def test_a_whole_record_behind_a_torn_one_is_read(store: ToyStore) -> None:
    (store.home / "one.jsonl").write_text('{"say": "goal"}\n{"say": "to{"edit": "a.py"}\n')

    [agent] = detector(store).scan(day_ago()).agents

    assert (agent.intel.files_changed, agent.intel.skipped) == (("a.py",), (("malformed", 1),))


def test_reading_one_in_full(store: ToyStore) -> None:
    write(store, "one", {"say": "goal\nNever touch vendor/."}, {"edit": "a.py"})
    finder = detector(store)
    [agent] = finder.scan(day_ago()).agents

    intel = finder.read(agent).intel()

    assert (agent.intel.rules, intel.rules) == ((), ("Never touch vendor/.",))
    (store.home / "one.jsonl").unlink()
    with pytest.raises(NotFoundError):
        finder.read(agent)


@pytest.fixture
def agent_process(store: ToyStore) -> Iterator[subprocess.Popen[bytes]]:
    code = "import sys; print(flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, "--toy-agent"],
        cwd=store.home / "app",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    yield child
    child.communicate(timeout=10)


def test_a_running_agent_is_found_by_its_folder(
    store: ToyStore, agent_process: subprocess.Popen[bytes]
) -> None:
    write(store, "one", {"say": "goal"})
    store.at = datetime.now(UTC)

    [agent] = detector(store).scan(day_ago()).agents

    assert (agent.pid, agent.status) == (agent_process.pid, "running")


def test_a_registry_names_the_session_unless_its_pid_is_another_process_now(
    store: ToyStore, agent_process: subprocess.Popen[bytes]
) -> None:
    write(store, "one", {"say": "goal"})
    write(store, "two", {"say": "goal"})
    store.registry = [Live(pid=agent_process.pid, native_id="two")]
    named = {agent.id: agent.pid for agent in detector(store).scan(day_ago()).agents}
    assert named["two"] == agent_process.pid

    if Path("/proc/self").is_dir():
        store.registry = [Live(pid=agent_process.pid, native_id="two", started=1)]
        stale = {agent.id: agent.pid for agent in detector(store).scan(day_ago()).agents}
        assert stale["two"] == 0
