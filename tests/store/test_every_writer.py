"""Every place that writes a file which must last, with each of its calls failing in turn.

What is there afterwards is what was there before or what should be there, file by file, and nothing else;
whoever asked is told which file it was and what to do. A last test finds writers that are not listed here.
"""

from __future__ import annotations

import ast
import errno
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import trio
from attrs import evolve, frozen

from relay.core.brief import render
from relay.core.chain import Target
from relay.core.contract import Circumstances, build, sign
from relay.core.intel import SessionIntel
from relay.core.record import FORMAT_VERSION, Options, SessionRecord
from relay.effects import adopt, adopted_file, opening_file, seal, staging
from relay.effects.detect_cache import DetectCache
from relay.effects.native_session import _copy, _Copying
from relay.effects.opening_file import KeptOpening
from relay.effects.processes import Identity
from relay.effects.spool import Offsets, RunFolder, RunRecord
from relay.errors import DiskFullError, RelayError
from relay.providers.table import provider_named
from relay.store import atomic, contracts, state_file
from relay.store.audit import AuditLog
from relay.store.audit_anchor import anchor_for, write_anchor
from relay.store.keys import load_or_make_signing_key, load_or_make_token
from relay.store.lock import DaemonLock
from relay.store.places import RepoPlaces, StatePlaces
from relay.store.repositories import remember_repository
from relay.store.starter import write_starter
from relay.store.trust import TrustStore
from tests.fakes.faulty_os import Faults, contents, failing
from tests.fakes.work import START, Work

RELAY = Path(__file__).parents[2] / "relay"
NOW = datetime(2026, 6, 3, 15, 41, 3, tzinfo=UTC)
KEY = bytes(range(32))
SID = "s-4k2m9x7q"
RUN = RunRecord(
    argv=("agent", "--key"), env=("A",), unset=(), cwd="/w", marker="m", fifo="", started=NOW
)  # fmt: skip
NATIVE = "0f9e1c00-0000-4000-8000-000000000000"


def nothing(root: Path) -> None:
    """Nothing is there before."""


@frozen(kw_only=True)
class Writer:
    """A place that writes.

    Args:
        modules: those whose writes it goes through, below `relay`.
        before: puts there what was there before.
        write: what is tried; its folder is given.
        loose: endings of files that may be missing or of any content after a failure, with good reason.
        adds: it puts something behind what is there, and once more when it is done again.
        once: it is refused the second time, or holds what only the end of the process lets go of.
    """

    modules: tuple[str, ...]
    write: Callable[[Path], object]
    before: Callable[[Path], object] = nothing
    loose: tuple[str, ...] = ()
    adds: bool = False
    once: bool = False


def record(root: Path) -> SessionRecord:
    return SessionRecord(
        sid=SID, repository=str(root), worktree=str(root), branch="", created_at=NOW, updated_at=NOW,
        options=Options(goal="x", chain=(Target(provider="scripted"),)),
    )  # fmt: skip


def session(root: Path) -> RepoPlaces:
    places = RepoPlaces(root=root)
    places.ensure_session(SID)
    return places


def pair(root: Path, text: str) -> None:
    here = Circumstances(
        contract_id=f"c-{text}00000000", session_id=SID, task_id="t-1", created=START, from_target="claude",
        reason=text, snapshot_commit="a" * 40,
    )  # fmt: skip
    contract = build(Work().facts(), here)
    markdown = render(contract)
    contracts.write(session(root).session(SID), sign(contract, markdown.encode(), KEY), markdown)


def adopted(root: Path) -> None:
    here = Circumstances(
        contract_id="c-adopted00000", session_id=SID, task_id="t-1", created=START, from_target="claude",
        reason="x", snapshot_commit="a" * 40,
    )  # fmt: skip
    contract = build(Work().facts(), here)
    adopt._write(root, NATIVE, contract, render(contract), KEY)


def state(root: Path, number: int) -> None:
    state_file.save(session(root).fsm(SID), {"n": number}, FORMAT_VERSION)


def two_states(root: Path) -> None:
    state(root, 1)
    state(root, 2)


def log(root: Path, *events: str) -> None:
    (root / "state").mkdir(exist_ok=True)
    path, anchor = root / "audit.jsonl", root / "state" / "anchor.json"
    with AuditLog.open(path, anchor, key=KEY, now=NOW) as opened:
        for event in events:
            opened.append([(event, {"text": event * 50})], ts=NOW, sync=True)
            opened.seal_anchor()


def begun(root: Path) -> RunFolder:
    folder = RunFolder(root / "sessions" / "run-1")
    if not folder.path.exists():
        folder.create(RUN)
        folder.note_sent("first")
        folder.note_offsets(Offsets(out=1))
        (folder.path / "out").write_bytes(b"a secret\nand more\n")
    return folder


def redact(root: Path) -> None:
    trio.run(partial(seal.redact_files, begun(root), lambda text: text.replace("secret", "*")))


def index(root: Path) -> None:
    (root / "index").write_bytes(b"old index")


def install(root: Path) -> None:
    with staging.store_errors(root / "index.lock"):
        (root / "relay.index").write_bytes(b"new index")
        assert staging._take_lock(root / "index.lock", b"relay 1 2 3\n")
        try:
            staging.replace_index(root / "index.lock", root / "relay.index")
        finally:
            (root / "index.lock").unlink(missing_ok=True)


def native(root: Path) -> None:
    for name in (f"{NATIVE}.jsonl", f"{NATIVE}/plan.txt"):
        path = root / "old" / "projects" / "-w-app" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b'{"cwd": "/w/app"}\n' * 3)


def copy(root: Path, after: str) -> int:
    files = provider_named("claude").resume_files(NATIVE, "/w/app")
    assert files is not None
    old, new = root / "old", root / "new"
    try:
        return _copy(
            provider_named("claude"), _Copying(old=old, new=new, files=files, before="/w/app", after=after)
        )
    except OSError as error:
        # What `bring` does with it, in words to the user.
        raise atomic.store_error(error, f"copy to {new}") from error


def cache(root: Path, stamp: str) -> None:
    made = DetectCache(root / "detect.json")
    made.put("a", stamp, SessionIntel(store="codex", home="/h", native_id=NATIVE, path="/h/a"))
    made.keep({"a": 1.0})


def note(root: Path) -> None:
    with DaemonLock.acquire(root / "daemon.lock") as lock:
        lock.note({"pid": 1, "port": 2})


def anchored(root: Path, count: int) -> None:
    write_anchor(root / "a.json", anchor_for(root / "log", count=count, head="0" * 64, size=count), KEY)


def trust(root: Path, letter: str) -> None:
    TrustStore(root / "trust.json").record(root, letter * 64, "me", NOW)


def versioned(root: Path, number: int) -> None:
    atomic.write_versioned(root / "sequence.json", {"next": number}, 1)


WRITERS = {
    "small state files": Writer(
        modules=("store/atomic", "effects/do_journal", "effects/do_ambient", "daemon"),
        before=lambda root: versioned(root, 1),
        write=lambda root: versioned(root, 2),
    ),
    "a session's state, the first": Writer(
        modules=("store/state_file",), before=session, write=lambda root: state(root, 1)
    ),
    "a session's state": Writer(
        modules=("store/state_file",),
        before=two_states,
        write=lambda root: state(root, 3),
        loose=(".prev",),
    ),
    "a contract": Writer(
        modules=("store/contracts",),
        before=lambda root: pair(root, "old"),
        write=lambda root: pair(root, "new"),
    ),
    "an adopted brief": Writer(
        modules=("effects/adopt",), before=lambda root: RepoPlaces(root=root).ensure(), write=adopted
    ),
    "what adopted work was known for": Writer(
        modules=("effects/adopted_file",),
        before=session,
        write=lambda root: adopted_file.keep(RepoPlaces(root=root), SID, {"goal": "x"}),
    ),
    "what a run was begun with": Writer(
        modules=("effects/opening_file",),
        before=session,
        write=lambda root: opening_file.keep(record(root), 1, KeptOpening(prompt="go")),
    ),
    "an audit log, begun": Writer(
        modules=("store/audit",),
        before=lambda root: (root / "state").mkdir(),
        write=lambda root: log(root, "a"),
        loose=("audit.jsonl", "anchor.json"),
    ),
    "an audit log, gone on with": Writer(
        modules=("store/audit",),
        before=lambda root: log(root, "a"),
        write=lambda root: log(root, "b"),
        adds=True,
    ),
    "an anchor": Writer(
        modules=("store/audit_anchor",),
        before=lambda root: anchored(root, 1),
        write=lambda root: anchored(root, 2),
    ),
    "the signing key": Writer(
        modules=("store/keys",), write=lambda root: load_or_make_signing_key(root / "key"), loose=("key",)
    ),
    "the token": Writer(
        modules=("store/keys",), write=lambda root: load_or_make_token(root / "key"), loose=("key",)
    ),
    "the daemon's lock": Writer(modules=("store/lock",), write=note, loose=("daemon.lock",), once=True),
    "trust": Writer(
        modules=("store/trust",), before=lambda root: trust(root, "a"), write=lambda root: trust(root, "b")
    ),
    "known repositories": Writer(
        modules=("store/repositories",),
        before=lambda root: remember_repository(StatePlaces(root=root), "/w/a"),
        write=lambda root: remember_repository(StatePlaces(root=root), "/w/b"),
    ),
    "the folders of the user": Writer(
        modules=("store/places",), write=lambda root: StatePlaces(root=root / "a" / "state").ensure()
    ),
    "the folders of a repository": Writer(
        modules=("store/places",), write=lambda root: RepoPlaces(root=root).ensure_session(SID)
    ),
    "what a repository begins with": Writer(
        modules=("store/starter",), write=lambda root: write_starter(root)
    ),
    "what was read of other agents": Writer(
        modules=("effects/detect_cache",),
        before=lambda root: cache(root, "1"),
        write=lambda root: cache(root, "2"),
    ),
    "a run's folder": Writer(
        modules=("effects/spool",),
        write=lambda root: RunFolder(root / "sessions" / "run-1").create(RUN),
        loose=("argv.json", "exit.part"),
        once=True,
    ),
    "a run's shim": Writer(
        modules=("effects/spool",),
        before=begun,
        write=lambda root: begun(root).note_shim(Identity(pid=1, start="2"), 3.0),
    ),
    "a run's place": Writer(
        modules=("effects/spool",), before=begun, write=lambda root: begun(root).note_offsets(Offsets(out=7))
    ),
    "a line that was sent": Writer(
        modules=("effects/spool",),
        before=begun,
        write=lambda root: begun(root).note_sent("second"),
        adds=True,
    ),
    "output in redacted form": Writer(
        # Sealed but not redacted: it is begun again.
        modules=("effects/seal",),
        before=begun,
        write=redact,
        loose=("offset",),
    ),
    "git's index": Writer(
        modules=("effects/staging",), before=index, write=install, loose=("relay.index", "index.lock")
    ),
    "a native session": Writer(
        modules=("effects/native_session",), before=native, write=lambda root: copy(root, "/w/app")
    ),
    "a native session of another folder": Writer(
        modules=("effects/native_session",), before=native, write=lambda root: copy(root, "/w/copy")
    ),
}

ELSEWHERE = {
    "effects/child": "the FIFO and the streams: tests/effects/test_child.py",
    "effects/stdin": "writes into the FIFO: tests/effects/test_child_stdin.py",
    "effects/worktree": "one folder that git fills: tests/effects/test_worktree.py",
    "effects/killpoints": "only when a test asks for it",
    "effects/history_git": "objects to look at, in a folder that is thrown away",
    "effects/store_files": "copies of foreign databases to look at, in a folder that is thrown away",
    "cli/launch": "the output of a start that fails; nothing is read from it later",
    "cli/service": "the unit file: tests/cli/test_service.py",
    "cli/demo": "a folder that is thrown away",
    "cli/app": "the null device",
    "doctor/machine": "tries what the machine can do, in a folder that is thrown away",
}
"""Modules that write what need not last, or that another test goes through."""

THROUGH_OTHERS = {"effects/adopt", "effects/seal"}
"""Tried, and written by calls of other modules alone."""

FAULTS = {
    "no space": Faults("", code=errno.ENOSPC),
    "no space, half of it written": Faults("", code=errno.ENOSPC, half=True),
    "no space for good": Faults("", code=errno.ENOSPC, for_good=True, half=True),
    "a bad disk": Faults("", code=errno.EIO),
    "no permission": Faults("", code=errno.EACCES),
}


def fresh(root: Path, writer: Writer) -> dict[str, bytes]:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(mode=0o700)
    writer.before(root)
    return contents(root)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS.keys())
def test_whatever_fails_there_is_the_old_or_the_new(tmp_path: Path, writer: Writer, fault: Faults) -> None:
    root = tmp_path / "place"
    old = fresh(root, writer)
    writer.write(root)
    new = contents(root)
    assert new != old or writer.modules == ("store/places",)

    for number in range(200):
        fresh(root, writer)
        raised: BaseException | None = None
        with failing(evolve(fault, folder=str(root), at=number, calls=[], failed="")) as faults:
            try:
                writer.write(root)
            except (RelayError, OSError) as error:
                raised = error
        if not faults.failed:
            break
        if faults.for_good and faults.failed == "unlink":
            continue  # What can never be removed stays.
        what = f"{faults.failed}, call {number}"
        found = contents(root)
        for path in {*old, *new, *found}:
            if loose(writer, path):
                continue
            if faults.failed == "unlink" and (path.endswith(".tmp") or path.startswith("relay-index-")):
                continue  # `relay gc` removes it, or the next that takes git's index.
            assert found.get(path) in (old.get(path), new.get(path)), f"{path} after {what}"
        if raised is not None:
            assert isinstance(raised, RelayError), f"{raised!r} after {what}"
            assert str(root) in raised.message, f"{raised} after {what}"
            assert raised.hint, f"{raised} after {what}"
            if fault.code == errno.ENOSPC:
                assert isinstance(raised, DiskFullError), f"{raised!r} after {what}"
            # Once it works again, it does.
            writer.write(root)
    else:
        raise AssertionError("no end of calls")
    assert number > 0


@pytest.mark.parametrize("half", [False, True], ids=["before a call", "in the middle of a write"])
@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS.keys())
def test_killed_anywhere_there_is_the_old_or_the_new_and_it_can_be_done_again(
    tmp_path: Path, writer: Writer, half: bool
) -> None:
    root = tmp_path / "place"
    old = fresh(root, writer)
    writer.write(root)
    new = contents(root)

    for number in range(200):
        fresh(root, writer)
        with failing(Faults(str(root), at=number, kill=True, half=half)) as faults:
            try:
                writer.write(root)
            except BaseException:  # It may come wrapped in a group.
                if not faults.failed:
                    raise
        if not faults.failed:
            break
        what = f"a kill before {faults.failed}, call {number}"
        found = contents(root)
        for path in {*old, *(path for path in new if path in found)}:
            now, before = found.get(path), old.get(path)
            whole = now in (before, new.get(path)) or loose(writer, path)
            assert whole or (writer.adds and (now or b"").startswith(before or b"")), f"{path} after {what}"
        if writer.once:
            continue
        writer.write(root)
        again = contents(root)
        for path, data in new.items():
            whole = again.get(path) == data or loose(writer, path)
            assert whole or writer.adds, f"{path}, done again after {what}"
    else:
        raise AssertionError("no end of calls")
    assert number > 0


def loose(writer: Writer, path: str) -> bool:
    """This file may be of any content after a failure."""
    return bool(writer.loose) and path.endswith(writer.loose)


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS.keys())
def test_writes_that_take_a_byte_at_a_time_come_to_the_same(tmp_path: Path, writer: Writer) -> None:
    root = tmp_path / "place"
    fresh(root, writer)
    writer.write(root)
    want = contents(root)
    fresh(root, writer)
    with failing(Faults(str(root), short=True)):
        writer.write(root)
    assert {path: data for path, data in contents(root).items() if not path.endswith("key")} == {
        path: data for path, data in want.items() if not path.endswith("key")
    }


WRITING_CALLS = {
    "write_text", "write_bytes", "mkfifo", "mkdir", "makedirs", "rename", "hardlink_to", "symlink_to",
    "symlink", "link", "ftruncate", "truncate", "copyfile", "copy", "copy2", "copytree", "move", "mkstemp",
    "mkdtemp", "NamedTemporaryFile", "TemporaryDirectory",
}  # fmt: skip
WRITING_FLAGS = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND")
STORE_CALLS = {"replace", "create", "write_versioned", "write_all"}
OTHER_PROGRAMS = ("scripted_agent", "evaluation")


def writes(source: str) -> bool:
    """The module has a call that makes or changes a file, by itself or through `store.atomic`."""
    tree = ast.parse(source)
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "relay.store.atomic"
        for alias in node.names
    }
    if imported & STORE_CALLS:
        return True
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        arguments = " ".join(ast.unparse(argument) for argument in (*node.args, *node.keywords))
        # `copy` of the module copy is of values, not of files.
        if name in WRITING_CALLS and owner != "formatter" and (name != "copy" or owner not in ("", "copy")):
            return True
        if name == "replace" and (owner in ("os", "atomic") or (len(node.args) == 1 and not node.keywords)):
            return True
        if name == "open" and any(
            flag in arguments for flag in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND")
        ):
            return True
        modes = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if name in ("open", "fdopen") and any(set(mode) & set("wax+") and len(mode) < 4 for mode in modes):
            return True
    return False


def test_no_module_writes_that_is_not_listed() -> None:
    found = {
        path.relative_to(RELAY).with_suffix("").as_posix()
        for path in RELAY.rglob("*.py")
        if path.relative_to(RELAY).parts[0] not in OTHER_PROGRAMS and writes(path.read_text("utf-8"))
    }
    tried = {module for writer in WRITERS.values() for module in writer.modules}
    assert found - tried - set(ELSEWHERE) == set(), "list them in WRITERS, so that their failures are tried"
    assert set(ELSEWHERE) - found == set(), "these write no more"
    assert tried - found == THROUGH_OTHERS
