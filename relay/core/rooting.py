"""Where the paths of a session's facts count from: its folder when that is told late, a repository's root.

Pure; used while a session is read (`relay.core.lift`) and where its work is adopted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable

from attrs import evolve

from relay.core.attempts import FailedAttempt, OpenCall
from relay.core.facts import SessionFacts
from relay.core.paths import inside, is_absolute, normal

_SHALLOWEST = 2
"""Folders directly below the top ("/home", "/srv") are nobody's working folder."""
_MOST_PATHS = 200

_Place = Callable[[str], str | None]
"""A path as it was told -> relative to the new folder; None for one that lies elsewhere."""


def settled(facts: SessionFacts, folder: str) -> SessionFacts:
    """The facts of an agent whose folder was not known so far: what it named there becomes relative to it.

    Args:
        facts: without `worktree`.
        folder: where the agent works, absolute.
    """
    root = normal(folder)
    return _placed(facts, root, lambda path: inside(path, root))


def rooted(facts: SessionFacts, root: str, was: str = "") -> SessionFacts:
    """The facts with every path relative to the repository's root instead of the folder of the agent.

    Args:
        facts: `worktree` is the agent's folder, absolute, as it is called now.
        root: of the repository, absolute.
        was: how the agent's folder was called when it worked there; "": as now.
    """
    folder, root = facts.worktree, normal(root)
    if not folder or (folder == root and not was):
        return facts
    prefix = "" if folder == root else inside(folder, root)
    if prefix is None:
        return facts
    old_root = _without(normal(was), prefix)

    def place(path: str) -> str | None:
        if path.startswith("~"):
            return None
        full = path if is_absolute(path) else posixpath.join(folder, path)
        within = inside(full, root)
        return inside(full, old_root) if within is None and old_root else within

    return _placed(facts, root, place)


def worked_in(facts: SessionFacts, now: str, is_there: Callable[[str], bool]) -> str:
    """The folder that an agent worked in and never named, judged by most of the files that it named.

    Args:
        facts: without `worktree`.
        now: the folder where the work lies now, absolute; it is taken unless another one fits.
        is_there: such a path exists in it.
    """
    found: dict[str, int] = {}
    told = [path for path in (*facts.outside, *facts.read) if path.startswith("/")][:_MOST_PATHS]
    if any(inside(path, normal(now)) for path in told):
        return now
    for path in told:
        parts = path.split("/")
        for depth in range(_SHALLOWEST + 1, len(parts)):
            if is_there("/".join(parts[depth:])):
                above = "/".join(parts[:depth])
                found[above] = found.get(above, 0) + 1
    # Of two that fit as well, the upper one: more of the path is the repository's own.
    best = max(found, key=lambda above: (found[above], -len(above)), default=now)
    within = sum(path.startswith(f"{best}/") for path in told)
    return best if within * 2 > len(told) else now


def _without(folder: str, prefix: str) -> str:
    """The root that a folder lay in, which is called `prefix` from there."""
    if not prefix:
        return folder
    return folder.removesuffix(f"/{prefix}") if folder.endswith(f"/{prefix}") else ""


def _placed(facts: SessionFacts, root: str, place: _Place) -> SessionFacts:
    changed: dict[str, None] = {}
    outside: dict[str, None] = {}
    for path in (*facts.changed, *facts.outside):
        within = place(path)
        if within is None:
            outside[path] = None
        else:
            changed[within] = None
    failures = (_attempt(tried, place) for tried in facts.failures.values())
    return evolve(
        facts,
        worktree=root,
        changed=changed,
        outside=outside,
        read=dict.fromkeys(filter(None, map(place, facts.read))),
        failures={tried.what: tried for tried in failures},
        open_calls={key: _call(call, place) for key, call in facts.open_calls.items()},
        cut_off=tuple(_call(call, place) for call in facts.cut_off),
    )


def _call(call: OpenCall, place: _Place) -> OpenCall:
    return evolve(call, paths=tuple(_every(call.paths, place))) if call.paths else call


def _attempt(tried: FailedAttempt, place: _Place) -> FailedAttempt:
    if not tried.what.startswith("edit "):
        return tried
    paths = tried.what.removeprefix("edit ").split(", ")
    return evolve(tried, what="edit " + ", ".join(_every(paths, place)))


def _every(paths: Iterable[str], place: _Place) -> Iterable[str]:
    return (place(path) or path for path in paths)
