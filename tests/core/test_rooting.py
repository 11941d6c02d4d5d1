"""Paths that an agent named are told relative to the repository, wherever and however late its folder is."""

from __future__ import annotations

import pytest
from attrs import evolve

from relay.core.attempts import FailedAttempt, OpenCall
from relay.core.events import ToolKind
from relay.core.facts import SessionFacts
from relay.core.rooting import rooted, settled, worked_in


def facts_of(
    *, changed: str = "", outside: str = "", read: str = "", folder: str = "", failed: str = ""
) -> SessionFacts:
    return SessionFacts(
        goal="Do it",
        worktree=folder,
        changed=dict.fromkeys(changed.split()),
        outside=dict.fromkeys(outside.split()),
        read=dict.fromkeys(read.split()),
        failures={failed: FailedAttempt(what=failed, why="it does not fit")} if failed else {},
    )


def test_a_folder_that_is_told_late_takes_in_what_was_named_before() -> None:
    call = OpenCall(run=1, tool="edit", tool_kind=ToolKind.EDIT, paths=("/w/shop/b.py", "/etc/hosts"))
    before = evolve(
        facts_of(
            changed="a.py",
            outside="/w/shop/src/c.py /etc/hosts",
            read="README.md /w/shop/d.py /usr/lib/x.py",
            failed="edit /w/shop/e.py, /etc/motd",
        ),
        open_calls={"1:c": call},
    )

    after = settled(before, "/w/shop/")

    assert list(after.changed) == ["a.py", "src/c.py"]
    assert list(after.outside) == ["/etc/hosts"]
    assert list(after.read) == ["README.md", "d.py"]
    assert list(after.failures) == ["edit e.py, /etc/motd"]
    assert [each.paths for each in after.under_way] == [("b.py", "/etc/hosts")]


@pytest.mark.parametrize(
    ("folder", "was", "changed", "outside"),
    [
        ("/w/shop", "/w/shop", "a.py", "../notes.md ~/x C:/y"),
        ("/w/shop/api", "/w/shop/api", "api/a.py notes.md", "~/x C:/y"),
        ("/w/shop/api", "/old/shop/api", "api/a.py notes.md README.md", "~/x C:/y"),
        ("/w/shop/api", "/old/elsewhere", "api/a.py notes.md", "/old/shop/README.md ~/x C:/y"),
        ("/w/elsewhere", "/w/elsewhere", "a.py", "../notes.md ~/x C:/y"),
    ],
)
def test_paths_are_told_from_the_root_of_the_repository(
    folder: str, was: str, changed: str, outside: str
) -> None:
    elsewhere = "/old/shop/README.md" if was.startswith("/old") else ""
    told = facts_of(changed="a.py", outside=f"../notes.md {elsewhere} ~/x C:/y", folder=folder)

    after = rooted(told, "/w/shop", was)

    assert list(after.changed) == changed.split()
    assert list(after.outside) == outside.split()


THERE = {"src/a.py", "src/b.py", "README.md"}


@pytest.mark.parametrize(
    ("named", "folder"),
    [
        ("/old/shop/src/a.py /old/shop/src/new.py", "/old/shop"),
        ("/old/shop/src/a.py /old/shop/README.md /etc/hosts", "/old/shop"),
        ("/w/shop/src/new.py /usr/lib/thing/README.md", "/w/shop"),
        ("/usr/lib/thing/README.md /etc/hosts /opt/y /opt/z", "/w/shop"),
        ("/home/README.md", "/w/shop"),
        ("src/a.py", "/w/shop"),
        ("", "/w/shop"),
    ],
)
def test_a_folder_that_is_nowhere_told_is_known_by_the_files_in_it(named: str, folder: str) -> None:
    assert worked_in(facts_of(outside=named), "/w/shop", THERE.__contains__) == folder
    assert worked_in(facts_of(read=named), "/w/shop", THERE.__contains__) == folder
