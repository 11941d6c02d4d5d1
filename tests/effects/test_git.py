"""The runner: what it keeps out, how it ends, what it says when git fails."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import trio

from relay.effects.git import Git, Output, failure, git_program, mutex, open_git
from relay.effects.gitnames import (
    BadNameError,
    check_branch,
    check_path,
    check_sha,
    check_sid,
    path_bytes,
    path_text,
)
from relay.errors import ConflictError, DiskFullError, GitError, NoRepositoryError, TimedOutError
from tests.fakes.repos import git, isolate, make_repo


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path / "home")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo")


def sleeper(tmp_path: Path, name: str, trap: str = "") -> Path:
    """A program that notes its process id and sleeps, in a child of its own too."""
    script = tmp_path / name
    script.write_text(
        f"#!/bin/sh\n{trap}\necho $$ >> {tmp_path}/pids\nsleep 300 &\necho $! >> {tmp_path}/pids\nwait\n"
    )
    script.chmod(0o755)
    return script


def alive(pids: Path) -> list[int]:
    found = [int(p) for p in pids.read_text().split()]
    return [p for p in found if psutil.pid_exists(p) and psutil.Process(p).status() != psutil.STATUS_ZOMBIE]


def noted(pids: Path) -> int:
    return len(pids.read_text().split()) if pids.exists() else 0


async def wait_for(pids: Path, lines: int) -> None:
    with trio.fail_after(20):
        while noted(pids) < lines:  # noqa: ASYNC110 - another process writes the file
            await trio.sleep(0.01)


async def gone(pids: Path) -> bool:
    with trio.move_on_after(10):
        while noted(pids) and alive(pids):  # noqa: ASYNC110 - other processes end
            await trio.sleep(0.01)
    return not (noted(pids) and alive(pids))


async def test_inherited_git_variables_play_no_role(
    repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other-index"))
    monkeypatch.setenv("GIT_WORK_TREE", "/")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.bare=true'")
    assert await Git(cwd=repo).text("rev-parse", "--show-toplevel") == str(repo)


async def test_a_git_lying_in_the_working_folder_is_not_run(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = repo / "git"
    fake.write_text("#!/bin/sh\necho fake\n")
    fake.chmod(0o755)
    monkeypatch.chdir(repo)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    assert Path(git_program()).is_absolute()
    assert await Git(cwd=repo).text("rev-parse", "--is-bare-repository") == "false"


@pytest.fixture
def slow_filter(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path:
    """The user's own configuration has a filter that never ends; returns the file with its process ids."""
    program = sleeper(tmp_path, "slow", getattr(request, "param", ""))
    config = tmp_path / "gitconfig"
    config.write_text(f'[filter "slow"]\n\tclean = {program}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    (repo / ".gitattributes").write_text("*.slow filter=slow\n")
    (repo / "x.slow").write_text("x\n")
    return tmp_path / "pids"


@pytest.mark.parametrize("slow_filter", ["", "trap '' TERM"], ids=["obedient", "deaf to TERM"], indirect=True)
async def test_a_cancelled_call_leaves_no_process_and_no_lock(repo: Path, slow_filter: Path) -> None:
    call = await open_git(repo)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call.run, "update-index", "--add", "x.slow")
        await wait_for(slow_filter, lines=2)
        assert (repo / ".git/index.lock").exists()
        nursery.cancel_scope.cancel()
    assert await gone(slow_filter)
    assert not (repo / ".git/index.lock").exists()


async def test_a_call_past_its_deadline_is_ended_and_says_so(repo: Path, slow_filter: Path) -> None:
    call = await open_git(repo)
    with pytest.raises(TimedOutError, match=r"git hash-object in .* did not end within 1 s") as caught:
        await call.run("hash-object", "x.slow", timeout=1)
    assert caught.value.hint
    assert await gone(slow_filter)


class WaitsUntilReleased(tuple[float, ...]):
    """Waiting times; the lock is released before the first of them is over."""

    lock: Path

    def __iter__(self) -> Iterator[float]:
        self.lock.unlink()
        yield 0.0


async def test_a_lock_held_for_a_moment_is_waited_for(repo: Path) -> None:
    waits = WaitsUntilReleased()
    waits.lock = repo / ".git/index.lock"
    waits.lock.write_text("")
    call = Git(cwd=repo, lock_waits=waits)
    await call.run("read-tree", "HEAD")


async def test_a_lock_that_stays_is_named_and_never_deleted(repo: Path) -> None:
    lock = repo / ".git/index.lock"
    lock.write_text("")
    with pytest.raises(ConflictError, match=r"holds .*index\.lock") as caught:
        await Git(cwd=repo, lock_waits=(0.01, 0.01)).run("read-tree", "HEAD")
    assert "delete that file" in caught.value.hint
    assert lock.exists()


@pytest.mark.parametrize(
    ("words", "want_error", "want_text"),
    [
        ("error: file write error: No space left on device", DiskFullError, "no space"),
        (
            "fatal: not a git repository (or any of the parent directories): .git",
            NoRepositoryError,
            "no git repo",
        ),
        (
            "fatal: Unable to create '/r/.git/index.lock': File exists.\n\nAnother git",
            ConflictError,
            "/r/.git/index.lock",
        ),
        ("error: could not lock config file .git/config: File exists", ConflictError, ".git/config"),
        ("fatal: one\nhint: no\nfatal: two", GitError, "fatal: one\nfatal: two"),
        ("", GitError, "exit status 128"),
    ],
)
def test_gits_words_become_an_error_with_a_mend(
    words: str, want_error: type[Exception], want_text: str
) -> None:
    error = failure(("status",), Output(out=b"", err=words, code=128), Path("/r"))
    assert type(error) is want_error
    assert want_text in error.message
    assert error.hint


async def test_filters_of_the_repository_are_off_and_named(repo: Path) -> None:
    git(repo, "config", "filter.odd=name.clean", "sed s/a/b/")
    (repo / ".gitattributes").write_text("*.txt filter=odd=name\n")
    found = await open_git(repo)
    assert found.notes == ("The filter 'odd=name' of this repository's own configuration was not run.",)
    assert await found.text("hash-object", "a.txt") == git(repo, "hash-object", "--no-filters", "a.txt")


async def test_filters_of_the_user_run(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "gitconfig"
    config.write_text('[filter "mine"]\n\tclean = sed s/a/b/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    (repo / ".gitattributes").write_text("*.txt filter=mine\n")
    found = await open_git(repo)
    assert found.notes == ()
    assert await found.text("hash-object", "a.txt") == git(repo, "rev-parse", "HEAD:b.txt")


@pytest.mark.parametrize(
    ("installed", "local", "want_clean", "want_note"),
    [
        (True, {}, "'{bin}/git-lfs' clean -- %f", ""),
        (True, {"filter.lfs.clean": "evil"}, "'{bin}/git-lfs' clean -- %f", ""),
        (True, {"lfs.extension.x.clean": "evil"}, "", "names programs to run"),
        (True, {"lfs.customtransfer.x.path": "evil"}, "", "names programs to run"),
        (True, {"lfs.https://x.org/.standalonetransferagent": "x"}, "", "names programs to run"),
        (False, {}, "", "git-lfs is not installed"),
    ],
    ids=["installed", "redefined here", "extension", "transfer", "agent", "missing"],
)
async def test_lfs_runs_by_its_fixed_commands_or_not_at_all(
    repo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: bool,
    local: dict[str, str],
    want_clean: str,
    want_note: str,
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text('[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").symlink_to(git_program())
    if installed:
        (folder / "git-lfs").write_text("#!/bin/sh\n")
        (folder / "git-lfs").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    for key, value in local.items():
        git(repo, "config", key, value)
    found = await open_git(repo)
    assert dict(found.config)["filter.lfs.clean"] == want_clean.format(bin=folder)
    assert want_note in "".join(found.notes)
    assert bool(found.notes) == bool(want_note)


def test_one_mutex_for_one_folder_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    held = mutex(tmp_path)
    assert mutex(tmp_path / "link") is held
    assert mutex(tmp_path / "other") is not held


BAD_SHAS = (
    "--output=/tmp/x",
    "-O",
    "HEAD;id",
    "a..b",
    "abc",
    "abcdef\0",
    "abcdef1\n",
    "ABCDEF12",
    "g" * 40,
    "a" * 65,
    "",
)


@pytest.mark.parametrize("text", BAD_SHAS)
def test_a_commit_id_is_hex_and_nothing_else(text: str) -> None:
    with pytest.raises(BadNameError):
        check_sha(text)


@pytest.mark.parametrize("text", ["-x", "", "a/b", "..", "s.lock", "a b", "x" * 65, "é", "a\n"])
def test_a_session_id_cannot_be_anything_else_to_git(text: str) -> None:
    with pytest.raises(BadNameError):
        check_sid(text)


@pytest.mark.parametrize(
    "text", ["-x", "", "a..b", "a b", "a.lock", "a/.b", "a//b", "/a", "a/", "@", "a@{1}", "a~1", "a\n"]
)
def test_a_branch_that_git_refuses_is_refused(text: str) -> None:
    with pytest.raises(BadNameError):
        check_branch(text)


@pytest.mark.parametrize("text", ["main", "feature/x-1", "relay/s-1", "ä", "v1.0"])
def test_a_branch_that_git_takes_is_taken(text: str, tmp_path: Path) -> None:
    assert check_branch(git(tmp_path, "check-ref-format", "--branch", text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "/etc/passwd",
        "../x",
        "a/../b",
        "",
        "a//b",
        ".git/config",
        ".GIT/config",
        "a\0b",
        '"\\056\\056/x\\351"',
    ],
)
def test_a_path_stays_inside_the_repository(text: str) -> None:
    with pytest.raises(BadNameError):
        check_path(text)


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        (b"plain.txt", "plain.txt"),
        ("grün.txt".encode(), "grün.txt"),
        (b"line\nbreak", "line\nbreak"),
        (b"caf\xe9.txt", '"caf\\351.txt"'),
        (b'"quoted"', '"\\042quoted\\042"'),
        (b"back\\slash", "back\\slash"),
        (b"back\\\xff", '"back\\134\\377"'),
    ],
)
def test_any_name_is_text_and_comes_back(raw: bytes, want: str) -> None:
    assert path_text(raw) == want
    assert path_bytes(want) == raw


def test_no_other_module_starts_git() -> None:
    package = Path(__file__).parents[2] / "relay"
    # The demo makes a repository of its own in a folder of its own.
    allowed = (package / "effects" / "git.py", package / "cli" / "demo.py")
    guilty = []
    for path in set(package.rglob("*.py")) - set(allowed):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.List | ast.Tuple) and node.elts:
                first = node.elts[0]
                if isinstance(first, ast.Constant) and first.value == "git" and len(node.elts) > 1:
                    guilty.append(f"{path.name}:{node.lineno}")
    assert guilty == []


async def test_hooks_that_any_configuration_names_are_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git takes hooks from the configuration since 2.54, which core.hooksPath does not switch off."""
    root = make_repo(tmp_path / "repo")
    mine = tmp_path / "gitconfig"
    mine.write_text('[hook "mine"]\n\tevent = post-checkout\n\tcommand = touch canary\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(mine))
    git(root, "config", "hook.a=b.event", "reference-transaction")
    git(root, "config", "hook.a=b.command", "touch canary")
    opened = await open_git(root)
    for name in ("mine", "a=b", "post-checkout", "reference-transaction", "post-index-change"):
        assert await opened.text("config", "--type=bool", "--get", f"hook.{name}.enabled") == "false", name
