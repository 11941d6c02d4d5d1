"""Bad input of every kind is refused with what is wrong and what to do, and leaves nothing half-made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.live import Live


def shape(folder: Path) -> list[str]:
    """All paths below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


async def nothing_begun(home: Live) -> None:
    assert await home.get("/api/sessions") == []
    assert (await home.get("/api/status"))["sessionId"] == ""
    assert home.processes() == []


def no_trace_of_work(home: Live, repository: Path) -> None:
    assert home.git(repository, "branch", "--list", "--format=%(refname:short)").split() == ["main"]
    assert home.git(repository, "for-each-ref", "refs/relay") == ""
    assert home.git(repository, "worktree", "list").count("\n") == 1
    assert not list((repository / ".relay" / "worktrees").glob("*"))
    assert not list((repository / ".relay" / "sessions").glob("*"))


def bare(home: Live) -> Path:
    folder = home.repository("origin")
    home.git(home.root, "clone", "-q", "--bare", str(folder), "bare.git")
    return home.root / "bare.git"


def unborn(home: Live) -> Path:
    folder = home.root / "unborn"
    folder.mkdir()
    home.git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("A\n")
    return folder


def no_repository(home: Live) -> Path:
    folder = home.root / "plain"
    folder.mkdir()
    return folder


def home_itself(home: Live) -> Path:
    (home.home / "a.txt").write_text("A\n")
    home.git(home.home, "init", "-q", "-b", "main")
    home.git(home.home, "add", "a.txt")
    home.git(home.home, "commit", "-q", "-m", "Begin")
    return home.home


def not_there(home: Live) -> Path:
    return home.root / "nowhere"


def a_file(home: Live) -> Path:
    (home.root / "file").write_text("x")
    return home.root / "file"


def inside_git(home: Live) -> Path:
    return home.repository() / ".git"


@pytest.mark.parametrize(
    ("make", "codes", "words"),
    [
        (no_repository, ("no_repository",), ("repository", "git init")),
        (unborn, ("repository_refused",), ("commit",)),
        (bare, ("repository_refused", "no_repository"), ("bare",)),
        (home_itself, ("repository_refused",), ("home",)),
        (not_there, ("no_repository",), ("nowhere", "folder")),
        (a_file, ("no_repository",), ("file", "folder")),
        (inside_git, ("repository_refused", "no_repository"), ("git",)),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_a_place_that_is_no_good(
    home: Live, make: Any, codes: tuple[str, ...], words: tuple[str, ...]
) -> None:
    home.plays("default", {"say": "Hello"})
    folder = make(home)
    await home.start()
    before = shape(folder) if folder.is_dir() else []
    status, error = await home.refused("/api/sessions", task="x", cwd=str(folder), providers=["scripted"])
    assert status == 400, error
    assert error["code"] in codes
    for word in words:
        assert word in (error["message"] + error["hint"]).lower()
    assert error["hint"]
    assert (shape(folder) if folder.is_dir() else []) == before
    await nothing_begun(home)
    await home.stop()


@pytest.mark.parametrize(
    ("name", "body", "status", "code", "words"),
    [
        ("an empty task", {"task": "  "}, 400, "bad_config", "task is empty"),
        ("an unknown provider", {"providers": ["claud"]}, 400, "unknown_provider", "claude"),
        ("an unknown account", {"providers": ["scripted/nobody"]}, 400, "bad_config", "nobody"),
        ("a target that is a path", {"providers": ["../x"]}, 400, "bad_config", "'..'"),
        ("an allowance unheard of", {"allow": "whatever"}, 400, "bad_config", "edits"),
    ],
)
async def test_a_request_that_is_no_good(
    home: Live, name: str, body: dict[str, Any], status: int, code: str | None, words: str
) -> None:
    home.plays("main", {"say": "Hello"})
    repository = home.repository()
    await home.start()
    asked = {"task": "x", "cwd": str(repository), "providers": ["scripted/main"], **body}
    got, error = await home.refused("/api/sessions", **asked)
    assert got == status, error
    assert code is None or error["code"] == code
    assert words in error["message"] + error["hint"]
    await nothing_begun(home)
    no_trace_of_work(home, repository)
    await home.stop()


async def test_a_program_that_is_not_installed(home: Live) -> None:
    home.settings = '[providers.claude]\ncommand = "no-such-agent"\n[providers.codex]\ncommand = "nor-this"\n'
    home.plays("default", {"say": "Hello"})
    repository = home.repository()
    await home.start()
    for body in ({}, {"providers": ["claude"]}, {"providers": ["claude", "codex"]}):
        asked = {"task": "x", "cwd": str(repository), **body}
        status, error = await home.refused("/api/sessions", **asked)
        assert (status, error["code"]) == (400, "missing_binary"), error
        assert "no-such-agent" in error["message"]
        assert error["hint"]
    await nothing_begun(home)
    no_trace_of_work(home, repository)
    asked = {"task": "x", "cwd": str(repository), "providers": ["claude", "scripted"]}
    made = await home.post("/api/sessions", **asked)
    assert "claude" in " ".join(made["notes"])
    session = await home.reach(made["sessionId"], "COMPLETED")
    assert session["chain"] == ["scripted"]
    await home.stop()


@pytest.mark.parametrize("user", [True, False], ids=["of the user", "of the repository"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[relay\n", ("relay.toml", "1")),
        ("[relay]\nserver_prt = 1\n", ("relay.toml:2", "server_prt", "server_port")),
        ('[relay]\nhandoff_threshold = "high"\n', ("relay.toml:2", "handoff_threshold")),
        ("[providers.claud]\nenabled = true\n", ("relay.toml:1", "claude")),
    ],
    ids=["broken", "a key misspelt", "a wrong type", "a provider misspelt"],
)
async def test_a_relay_toml_that_is_no_good(
    home: Live, user: bool, text: str, words: tuple[str, ...]
) -> None:
    home.plays("default", {"say": "Hello"})
    repository = home.repository()
    await home.start()
    path = home.config / "relay.toml" if user else repository / ".relay" / "relay.toml"
    path.parent.mkdir(exist_ok=True, mode=0o700)
    path.write_text(text)
    status, error = await home.refused("/api/sessions", task="x", cwd=str(repository), providers=["scripted"])
    assert (status, error["code"]) == (400, "bad_config")
    for word in words:
        assert word in error["message"]
    await nothing_begun(home)
    no_trace_of_work(home, repository)
    await home.stop()


async def test_a_relay_toml_that_is_not_trusted_runs_nothing(home: Live) -> None:
    home.plays("default", {"say": "Hello"})
    repository = home.repository()
    (repository / ".relay").mkdir(mode=0o700)
    mark = home.root / "ran"
    (repository / ".relay" / "relay.toml").write_text(f"[verify]\ncommands = ['touch {mark}']\n")
    await home.start()
    asked = {"task": "x", "cwd": str(repository), "providers": ["scripted"]}
    status, error = await home.refused("/api/sessions", **asked)
    assert (status, error["code"]) == (403, "not_trusted")
    assert "relay trust" in error["hint"]
    assert str(mark) in error["message"] + error["hint"] or "verify" in error["message"]
    await nothing_begun(home)
    no_trace_of_work(home, repository)
    assert not mark.exists()
    trusted = await home.cli("trust", "--yes", cwd=repository)
    assert trusted.returncode == 0, trusted.stderr.decode()
    sid = await home.run(repository)
    await home.reach(sid, "COMPLETED")
    assert mark.exists()
    await home.stop()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("part", [".", ".git"])
async def test_a_folder_that_cannot_be_written(home: Live, part: str) -> None:
    home.plays("default", {"say": "Hello"})
    repository = home.repository()
    await home.start()
    folder = repository / part
    folder.chmod(0o500)
    try:
        status, error = await home.refused(
            "/api/sessions", task="x", cwd=str(repository), providers=["scripted"]
        )
        assert status == 500
        assert str(repository) in error["message"]
        await nothing_begun(home)
    finally:
        folder.chmod(0o700)
    no_trace_of_work(home, repository)
    await home.stop()


async def test_a_folder_of_relays_that_is_something_else(home: Live) -> None:
    home.plays("default", {"say": "Hello"})
    repository = home.repository()
    (repository / ".relay").write_text("mine\n")
    await home.start()
    status, error = await home.refused("/api/sessions", task="x", cwd=str(repository), providers=["scripted"])
    assert status in (400, 500)
    assert ".relay" in error["message"]
    assert (repository / ".relay").read_text() == "mine\n"
    await nothing_begun(home)
    await home.stop()


async def test_relays_folder_cannot_be_a_way_out_of_the_repository(home: Live) -> None:
    home.plays("default", {"say": "Hello"})
    repository = home.repository()
    elsewhere = home.root / "elsewhere"
    elsewhere.mkdir()
    (repository / ".relay").symlink_to(elsewhere)
    await home.start()
    status, error = await home.refused("/api/sessions", task="x", cwd=str(repository), providers=["scripted"])
    assert status in (400, 422, 500)
    assert ".relay" in error["message"]
    assert shape(elsewhere) == []
    await nothing_begun(home)
    await home.stop()


async def test_a_branch_in_the_way_of_every_session(home: Live) -> None:
    home.plays("default", {"say": "Hello"})
    repository = home.repository()
    home.git(repository, "branch", "relay")
    await home.start()
    status, error = await home.refused("/api/sessions", task="x", cwd=str(repository), providers=["scripted"])
    assert status < 500 or error["code"] == "git_failed"
    assert "relay" in error["message"]
    await nothing_begun(home)
    assert home.git(repository, "worktree", "list").count("\n") == 1
    assert not list((repository / ".relay" / "sessions").glob("*"))
    await home.stop()


async def test_a_detached_head_works(home: Live) -> None:
    home.plays("default", {"write": {"path": "a.txt", "content": "A\n"}})
    repository = home.repository()
    home.git(repository, "checkout", "-q", "--detach")
    await home.start()
    sid = await home.run(repository)
    await home.reach(sid, "COMPLETED")
    assert home.git(repository, "show", f"relay/{sid}:a.txt") == "A\n"
    assert home.git(repository, "status", "--porcelain") == ""
    await home.stop()


async def test_a_submodule_works_from_without_and_within(home: Live) -> None:
    home.plays("default", {"write": {"path": "a.txt", "content": "A\n"}})
    inner, outer = home.repository("inner"), home.repository("outer")
    home.git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    home.git(outer, "commit", "-q", "-m", "Add the submodule")
    await home.start()
    sid = await home.run(outer)
    await home.reach(sid, "COMPLETED")
    assert home.git(outer, "show", f"relay/{sid}:a.txt") == "A\n"
    within = await home.run(outer / "sub")
    session = await home.reach(within, "COMPLETED")
    assert session["repository"] == str(outer / "sub")
    assert home.git(outer / "sub", "show", f"relay/{within}:a.txt") == "A\n"
    assert home.git(outer, "status", "--porcelain") == ""
    await home.stop()


async def test_a_folder_below_the_top_is_the_same_repository(home: Live) -> None:
    home.plays("default", {"say": "Hello"})
    repository = home.repository(files={"src/deep/a.txt": "A\n"})
    await home.start()
    sid = await home.run(repository / "src" / "deep")
    session = await home.reach(sid, "COMPLETED")
    assert session["repository"] == str(repository)
    await home.stop()
