"""Builders of real repositories, made by the real git with no configuration but their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

IDENTITY = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org")


def isolate(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Keep the configuration of whoever runs the tests out of them."""
    home.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)


def git(cwd: Path, *args: str, stdin: bytes | None = None, ok: bool = True) -> str:
    """Run git as a user would; standard output without its last newline."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k == "GIT_CONFIG_GLOBAL"}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    done = subprocess.run(
        ["git", *IDENTITY, "-c", "protocol.file.allow=always", *args],
        cwd=cwd,
        env=env,
        input=stdin,
        capture_output=True,
        check=False,
    )
    if ok and done.returncode != 0:
        raise AssertionError(f"git {args}: {done.stderr.decode()}")
    return os.fsdecode(done.stdout).removesuffix("\n")


def write(root: Path, files: dict[str, str | bytes]) -> None:
    """Write files, their folders too."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def make_repo(root: Path, files: dict[str, str | bytes] | None = None) -> Path:
    """A repository with one commit on main."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    write(root, files if files is not None else {"a.txt": "a\n", "b.txt": "b\n", "dir/c.txt": "c\n"})
    commit_all(root, "First")
    return root


def commit_all(root: Path, message: str) -> str:
    """Commit everything; the commit's id."""
    git(root, "add", "-A")
    git(root, "-c", "core.hooksPath=/dev/null", "commit", "-q", "--allow-empty", "-m", message)
    return git(root, "rev-parse", "HEAD")


def tree_of(root: Path, commit: str) -> dict[str, str]:
    """Path to "mode id" of everything in a commit."""
    found = {}
    for line in git(root, "ls-tree", "-r", "-z", commit).split("\0")[:-1]:
        meta, path = line.split("\t", 1)
        mode, _, oid = meta.split(" ")
        found[path] = f"{mode} {oid}"
    return found


def show(root: Path, commit: str, path: str) -> str:
    """A file's content in a commit."""
    return git(root, "cat-file", "blob", f"{commit}:{path}")


def status(root: Path) -> str:
    """`git status` for machines, without Relay's own folder; takes no lock, so the index stays as it is."""
    flags = ("status", "--porcelain", "--untracked-files=all", "--", ".", ":(exclude).relay")
    return git(root, "--no-optional-locks", *flags)


def fingerprint(root: Path) -> tuple[bytes, int, str, str, str, dict[str, tuple[int, bytes]]]:
    """All of a checkout that a user could see change: index and its time, HEAD, branches, status, files."""
    index = root / ".git" / "index"
    files: dict[str, tuple[int, bytes]] = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in (".git", ".relay")]
        for path in (Path(folder) / name for name in names):
            link = path.is_symlink()
            content = os.fsencode(path.readlink()) if link else path.read_bytes()
            files[repr(path)] = (path.lstat().st_mode, content)
    own = [
        line
        for line in git(root, "for-each-ref", "refs/heads", "refs/tags").split("\n")
        if "refs/heads/relay" not in line
    ]
    return (
        index.read_bytes(),
        index.stat().st_mtime_ns,
        (root / ".git" / "HEAD").read_text(),
        "\n".join(own),
        status(root),
        files,
    )


def hostile(root: Path, canary: Path) -> None:
    """Give every key of the repository's configuration that takes a program one that touches `canary`."""
    script = root.parent / "evil.sh"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >> {canary}\ncat\n')
    script.chmod(0o755)
    hooks = root.parent / "hooks"
    hooks.mkdir()
    names = (
        "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg "
        "commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive "
        "post-receive post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite "
        "sendemail-validate fsmonitor-watchman post-index-change"
    )
    for name in names.split():
        for folder in (hooks, root / ".git" / "hooks"):
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(f"#!/bin/sh\necho hook {name} >> {canary}\n")
            (folder / name).chmod(0o755)
    program = str(script)
    settings = {
        "core.fsmonitor": program,
        "core.hooksPath": str(hooks),
        "core.sshCommand": program,
        "core.gitProxy": program,
        "core.pager": program,
        "core.editor": program,
        "core.askPass": program,
        "core.alternateRefsCommand": program,
        "sequence.editor": program,
        "diff.external": program,
        "diff.evil.command": program,
        "diff.evil.textconv": program,
        "filter.evil.clean": program,
        "filter.evil.smudge": program,
        "filter.evil.required": "true",
        "filter.proc=ess.process": program,
        "filter.proc=ess.required": "true",
        "filter.lfs.clean": program,
        "filter.lfs.smudge": program,
        "filter.lfs.process": program,
        "filter.lfs.required": "true",
        "lfs.extension.evil.clean": program,
        "merge.evil.driver": program,
        "merge.tool": "evil",
        "mergetool.evil.cmd": program,
        "credential.helper": f"!{program}",
        "credential.https://example.org.helper": f"!{program}",
        "core.attributesFile": str(root.parent / "attributes"),
        "diff.evil.cachetextconv": "true",
        "interactive.diffFilter": program,
        "merge.default": "evil",
        "merge.evil.recursive": "evil",
        "receive.procReceiveRefs": "refs",
        "submodule.lib.update": f"!{program}",
        "hook.evil.command": program,
        "web.browser": "evil",
        "browser.evil.cmd": program,
        "tar.evil.command": program,
        "gpg.program": program,
        "gpg.ssh.program": program,
        "commit.gpgSign": "true",
        "tag.gpgSign": "true",
        "log.showSignature": "true",
        "uploadpack.packObjectsHook": program,
        "remote.origin.url": f"ext::{program}",
        "remote.origin.uploadpack": program,
        "remote.origin.vcs": "evil",
        "protocol.ext.allow": "always",
        "protocol.allow": "always",
        "submodule.evil.update": f"!{program}",
        "trailer.evil.command": program,
        "pager.status": program,
        "alias.status": f"!{program}",
        "init.templateDir": str(hooks.parent),
        "gc.auto": "1",
        "gc.recentObjectsHook": program,
    }
    for key, value in settings.items():
        git(root, "config", "--local", key, value)
    for event in ("post-checkout", "reference-transaction", "post-index-change"):
        git(root, "config", "--local", "--add", "hook.evil.event", event)
    (root.parent / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    conditions = {
        "inc": "include.path",
        "linked": "includeIf.gitdir:**/worktrees/**.path",
        "branch": "includeIf.onbranch:relay/**.path",
    }
    for name, condition in conditions.items():
        included = root / ".git" / f"more-{name}"
        included.write_text(f'[filter "{name}"]\n\tclean = {program}\n\tsmudge = {program}\n\trequired\n')
        git(root, "config", "--local", condition, str(included))
    write(
        root,
        {
            ".gitattributes": "*.txt filter=evil diff=evil merge=evil\n*.bin filter=proc=ess\n"
            "*.lfs filter=lfs\n*.inc filter=inc\n*.linked filter=linked\n*.branch filter=branch\n"
        },
    )


def with_submodule(root: Path, library: Path) -> Path:
    """A repository at `root` with the repository at `library` as its submodule `lib`."""
    make_repo(library, {"lib.txt": "library\n"})
    make_repo(root)
    git(root, "submodule", "--quiet", "add", str(library), "lib")
    commit_all(root, "With a submodule")
    return root
