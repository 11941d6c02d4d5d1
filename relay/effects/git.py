"""The one place that starts git.

A repository may come from anywhere, and its own configuration can name programs to run: a file system
monitor, hooks, filters, a signing program, an ssh command. None of them runs here. Each call gets an
absolute git, an environment without inherited GIT_* variables, configuration that overrides the
repository's, no network, no prompt, a deadline, and a process group that is gone when the call ends.
Called by the other git modules of `relay.effects` alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import weakref
from collections.abc import Container, Mapping
from pathlib import Path

import trio
from attrs import evolve, frozen

from relay.errors import (
    ConflictError,
    DiskFullError,
    GitError,
    MissingBinaryError,
    NoRepositoryError,
    RelayError,
    RepositoryRefusedError,
    TimedOutError,
)

LOCK_WAITS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds to wait before each new try while another process holds a lock of the repository."""

LOCK_HINT = "Wait for it. If no git runs in this repository any more, delete that file and try again."

BUS_ERROR = -getattr(signal, "SIGBUS", 10)
"""How git ends when a file shrinks that it has mapped into memory."""

_OVERRIDES = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("core.pager", "cat"),
    ("core.editor", ":"),
    ("core.askPass", ""),
    ("core.safecrlf", "false"),
    ("core.splitIndex", "false"),
    ("core.quotePath", "true"),
    ("credential.helper", ""),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("i18n.commitEncoding", "UTF-8"),
    ("branch.autoSetupMerge", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("diff.ignoreSubmodules", "dirty"),
    ("protocol.ext.allow", "never"),
    ("safe.bareRepository", "explicit"),
    ("advice.detachedHead", "false"),
)
"""Overrides for every call. Command-scope configuration wins over the repository's and the user's."""

_HOOKS = (
    "post-checkout",
    "post-index-change",
    "post-rewrite",
    "pre-auto-gc",
    "reference-transaction",
)
"""Events that what Relay does would trigger. git 2.54 and newer take hooks from the configuration, too."""

_LOCKED = re.compile(
    r"Unable to create '(?P<path>.+?\.lock)': File exists|could not lock config file (?P<c>\S+)"
)
_LFS_COMMANDS = re.compile(r"lfs\.(extension|customtransfer)\.|lfs\.(.*\.)?standalonetransferagent$")
_mutexes: weakref.WeakValueDictionary[str, trio.Lock] = weakref.WeakValueDictionary()


def mutex(git_dir: Path) -> trio.Lock:
    """The lock that Relay's own tasks take before they change what lies in `git_dir` (one per real path)."""
    key = os.path.realpath(git_dir)
    lock = _mutexes.get(key)
    if lock is None:
        lock = _mutexes[key] = trio.Lock()
    return lock


@frozen(kw_only=True)
class Output:
    """What a git call printed, and its exit status."""

    out: bytes
    err: str
    code: int

    @property
    def text(self) -> str:
        """Standard output as text, without the newline at its end."""
        return self.out.decode("utf-8", "surrogateescape").removesuffix("\n")

    @property
    def fields(self) -> list[bytes]:
        """Standard output split at NUL."""
        return self.out.split(b"\0")[:-1]


@frozen(kw_only=True)
class Git:
    """git in one folder. Made by `open_git`, which finds out what must be switched off there.

    Args:
        cwd: the folder, absolute.
        config: overrides for this repository, on top of the general ones.
        notes: what was switched off and why, for the user.
        index_file: an index of our own, instead of the folder's.
        objects: a folder that new objects go to, instead of the repository's.
        exact: the folder itself must be the repository's root; git does not look further up.
        lock_waits: see LOCK_WAITS.
    """

    cwd: Path
    config: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    index_file: Path | None = None
    objects: Path | None = None
    exact: bool = True
    lock_waits: tuple[float, ...] = LOCK_WAITS

    def with_index(self, index_file: Path) -> Git:
        """The same, working on `index_file` instead of the folder's own index."""
        return evolve(self, index_file=index_file)

    def without_index(self) -> Git:
        """The same for comparing what is committed. Where its index says that they are the same, git would
        read a file of the checkout in place of the blob (diff.c, git 2.39: reuse_worktree_file), and that
        may be written to meanwhile.
        """
        return self.with_index(self.cwd / f".relay-no-index-{os.urandom(8).hex()}")

    def at(self, cwd: Path) -> Git:
        """The same overrides in another folder of the same repository."""
        return evolve(self, cwd=cwd, index_file=None)

    async def run(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        config: tuple[tuple[str, str], ...] = (),
        accept: Container[int] = (0,),
        writes: bool = False,
        timeout: float = 120.0,
        most: int | None = None,
    ) -> Output:
        """Run `git args`.

        Args:
            stdin: what git reads.
            env: variables on top of the cleaned environment.
            config: overrides for this call.
            accept: exit statuses that are answers rather than failures.
            writes: git may take optional locks (it never does for a read).
            timeout: seconds until git is ended.
            most: bytes of output that are kept; the rest is dropped. None for all.

        Raises:
            MissingBinaryError: there is no git.
            TimedOutError: the deadline passed; git and its children are gone.
            ConflictError: another process kept a lock of the repository.
            NoRepositoryError, RepositoryRefusedError, DiskFullError, GitError: by git's own words.
        """
        argv = [git_program(), *args]
        full_env = self._environment(env or {}, config, writes)
        waits = iter(self.lock_waits)
        while True:
            code, out, err = await _call(argv, self.cwd, full_env, stdin, timeout, most)
            output = Output(out=out, err=err.decode("utf-8", "replace"), code=code)
            if code in accept:
                return output
            wait = next(waits, None) if _LOCKED.search(output.err) else None
            if wait is None:
                raise failure(args, output, self.cwd)
            await trio.sleep(wait)

    async def text(self, *args: str, accept: Container[int] = (0,)) -> str:
        """Standard output of `git args`, a read, as text."""
        return (await self.run(*args, accept=accept)).text

    async def commit_id(self, revision: str) -> str | None:
        """The full commit id that `revision` names, or None. `revision` has been checked by shape."""
        found = await self.run(
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            f"{revision}^{{commit}}",
            accept=(0, 1, 128),
        )
        return found.text if found.code == 0 else None

    def _environment(
        self, extra: Mapping[str, str], config: tuple[tuple[str, str], ...], writes: bool
    ) -> dict[str, str]:
        env = {
            k: v
            for k, v in os.environ.items()
            if (not k.startswith("GIT_") or k == "GIT_CONFIG_GLOBAL") and k not in ("SSH_ASKPASS", "LANGUAGE")
        }
        env |= {
            "PATH": _absolute_path(),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "",
            "GIT_EDITOR": ":",
            "GIT_SEQUENCE_EDITOR": ":",
            "GIT_PAGER": "cat",
            "GIT_SSH_COMMAND": "false",
            "GIT_ALLOW_PROTOCOL": "",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_TEMPLATE_DIR": "",
            "GIT_OPTIONAL_LOCKS": "1" if writes or self.index_file else "0",
        }
        # Where the list is split at ":", a folder with one in its name cannot be listed.
        if self.exact and ":" not in str(self.cwd):
            env["GIT_CEILING_DIRECTORIES"] = os.path.realpath(self.cwd.parent)
        if self.index_file is not None:
            env["GIT_INDEX_FILE"] = str(self.index_file)
        if self.objects is not None:
            env["GIT_OBJECT_DIRECTORY"] = str(self.objects)
        # Not `-c`: a filter's name may hold "=", which `-c` would cut at.
        no_hooks = ((f"hook.{event}.enabled", "false") for event in _HOOKS)
        settings = (*_OVERRIDES, *no_hooks, *self.config, *config)
        env["GIT_CONFIG_COUNT"] = str(len(settings))
        for number, (key, value) in enumerate(settings):
            env[f"GIT_CONFIG_KEY_{number}"] = key
            env[f"GIT_CONFIG_VALUE_{number}"] = value
        return env | dict(extra)


async def open_git(cwd: Path, *, exact: bool = True) -> Git:
    """Git in `cwd`, with every filter switched off that the repository's own configuration defines, and with
    every hook that any configuration does.

    Filters of the user's configuration run as they do for the user. LFS runs by its own fixed commands,
    whatever the repository says they are; it is switched off when git-lfs is missing or the repository's
    own configuration gives it programs to run.

    Args:
        cwd: an existing folder.
        exact: see Git.

    Raises:
        NoRepositoryError, RepositoryRefusedError, GitError: as `Git.run`.
    """
    probe = Git(cwd=cwd, exact=exact)
    found = await probe.run(
        "config",
        "--null",
        "--show-scope",
        "--includes",
        "--get-regexp",
        r"^(filter|lfs|hook)\.",
        accept=(0, 1),
    )
    own: set[str] = set()
    known: set[str] = set()
    hooks: set[str] = set()
    lfs_programs = False
    fields = found.out.decode("utf-8", "surrogateescape").split("\0")[:-1]
    for scope, entry in zip(fields[::2], fields[1::2], strict=True):
        key = entry.split("\n", 1)[0]
        local = scope in ("local", "worktree")
        if key.startswith("filter."):
            name = key[len("filter.") :].rpartition(".")[0]
            known.add(name)
            if local:
                own.add(name)
        elif key.startswith("hook."):
            hooks.add(key[len("hook.") :].rpartition(".")[0])
        elif local and _LFS_COMMANDS.match(key):
            lfs_programs = True
    config = [(f"hook.{name}.enabled", "false") for name in sorted(hooks - {"", *_HOOKS})]
    notes: list[str] = []
    for name in sorted(own - {"lfs", ""}):
        config += _filter(name, "", "", "", "false")
        notes.append(f"The filter '{name}' of this repository's own configuration was not run.")
    if "lfs" in known:
        program = shutil.which("git-lfs", path=_absolute_path())
        if program and not lfs_programs:
            quoted = "'" + program.replace("'", "'\\''") + "'"
            config += _filter(
                "lfs", f"{quoted} clean -- %f", f"{quoted} smudge -- %f", f"{quoted} filter-process", "true"
            )
        else:
            config += _filter("lfs", "", "", "", "false")
            why = "its configuration here names programs to run" if program else "git-lfs is not installed"
            notes.append(f"Git LFS was switched off ({why}): its files stand as pointers.")
    return evolve(probe, config=tuple(config), notes=tuple(notes))


def git_program() -> str:
    """The absolute path of git.

    Raises:
        MissingBinaryError: there is none on PATH.
    """
    program = shutil.which("git", path=_absolute_path())
    if program is None:
        raise MissingBinaryError("git is not installed", hint="Install git 2.31 or newer and try again.")
    return program


def failure(args: tuple[str, ...], output: Output, cwd: Path) -> RelayError:
    """The error that git's words in `output` mean."""
    lines = [line for line in output.err.strip().split("\n") if line and not line.startswith("hint:")]
    words = "\n".join(lines[-6:])[-1500:] or f"exit status {output.code}"
    said = f"git {args[0]} in {cwd}: {words}"
    if "No space left on device" in words or "Disk quota exceeded" in words:
        return DiskFullError(f"no space is left for git: {words}", hint="Free some space, then try again.")
    if output.code == BUS_ERROR:
        return GitError(
            f"git {args[0]} in {cwd}: a file there was cut short while git read it",
            hint="End what writes there (a server, a build), then try again.",
        )
    locked = _LOCKED.search(output.err)
    if locked:
        lock = locked["path"] or f"{locked['c']}.lock"
        return ConflictError(
            f"another git process holds {lock}",
            hint=LOCK_HINT,
        )
    if "dubious ownership" in words:
        return RepositoryRefusedError(
            f"the repository at {cwd} belongs to another user",
            hint=f"If you trust it: git config --global --add safe.directory {cwd}",
        )
    if "not a git repository" in words:
        return NoRepositoryError(
            f"{cwd} is in no git repository", hint="Run `git init` there, then commit once."
        )
    hint = f"Run `git -C {cwd} status`, mend what it names, then try again."
    if "Permission denied" in words or "Read-only file system" in words or "insufficient permission" in words:
        hint = f"Make {cwd} and its .git writable for you, then try again."
    elif "promisor" in words or "lazy fetching disabled" in words:
        hint = "This is a partial clone and Relay does not fetch: run `git fetch --refetch` first."
    return GitError(said, hint=hint)


def _filter(name: str, clean: str, smudge: str, process: str, required: str) -> list[tuple[str, str]]:
    """Settings of a filter. An empty command means no filter to git (convert.c, git 2.39: apply_filter)."""
    values = (("clean", clean), ("smudge", smudge), ("process", process), ("required", required))
    return [(f"filter.{name}.{key}", value) for key, value in values]


def _absolute_path() -> str:
    """PATH without its relative entries, which would find programs inside the repository."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(e for e in entries if e.startswith("/"))


async def _call(
    argv: list[str], cwd: Path, env: Mapping[str, str], stdin: bytes, timeout: float, most: int | None
) -> tuple[int, bytes, bytes]:
    try:
        with trio.fail_after(timeout):
            return await _communicate(argv, cwd, env, stdin, most)
    except trio.TooSlowError:
        raise TimedOutError(
            f"git {argv[1]} in {cwd} did not end within {timeout:g} s and was stopped",
            hint="Look for a very large or slow folder there, put it into .gitignore, then try again.",
        ) from None
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise NoRepositoryError(
            f"{cwd} cannot be entered: {error.strerror}", hint="Check the path."
        ) from error


async def _communicate(
    argv: list[str], cwd: Path, env: Mapping[str, str], stdin: bytes, most: int | None
) -> tuple[int, bytes, bytes]:
    """Run a child to its end; when this ends any other way, the child's whole group is ended first."""
    process = await trio.lowlevel.open_process(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None
    out, err = bytearray(), bytearray()
    finished = False
    try:
        async with trio.open_nursery() as nursery:
            if process.stdin is not None:
                nursery.start_soon(_feed, process.stdin, stdin)
            nursery.start_soon(_drain, process.stdout, out, most)
            nursery.start_soon(_drain, process.stderr, err, None)
            await process.wait()
        finished = True
    finally:
        with trio.CancelScope(shield=True):
            if not finished:
                await _end(process)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    await stream.aclose()
    return process.returncode or 0, bytes(out), bytes(err)


async def _feed(stream: trio.abc.SendStream, data: bytes) -> None:
    async with stream:
        with contextlib.suppress(trio.BrokenResourceError):
            await stream.send_all(data)


async def _drain(stream: trio.abc.ReceiveStream, into: bytearray, most: int | None) -> None:
    async for chunk in stream:
        into += chunk if most is None else chunk[: most - len(into)]


async def _end(process: trio.Process) -> None:
    # TERM first: git then removes the lock files it holds.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with trio.move_on_after(2):
        await process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
