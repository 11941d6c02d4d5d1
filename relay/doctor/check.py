"""One check's outcome, and how a check that fails itself becomes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

import psutil
from attrs import frozen

from relay.errors import RelayError


class Status(StrEnum):
    """How it stands."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@frozen(kw_only=True)
class Check:
    """One line of the report.

    Args:
        name: what was checked, the same at every run.
        summary: what was found, one line.
        detail: more of it.
        mend: what to do about it; "" when nothing need be done.
    """

    name: str
    status: Status
    summary: str
    detail: str = ""
    mend: str = ""


def ok(name: str, summary: str, detail: str = "") -> Check:
    """All is well."""
    return Check(name=name, status=Status.OK, summary=summary, detail=detail)


def warning(name: str, summary: str, mend: str, detail: str = "") -> Check:
    """It works, and something should be looked at."""
    return Check(name=name, status=Status.WARNING, summary=summary, mend=mend, detail=detail)


def error(name: str, summary: str, mend: str, detail: str = "") -> Check:
    """It does not work."""
    return Check(name=name, status=Status.ERROR, summary=summary, mend=mend, detail=detail)


def skipped(name: str, summary: str) -> Check:
    """It could not be checked, and need not be."""
    return Check(name=name, status=Status.SKIPPED, summary=summary)


def guarded(name: str, checks: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """The checks; one that can't be made is an error of the report's, not the end of it."""
    try:
        yield from checks()
    except RelayError as failure:
        yield error(name, failure.message, failure.hint or "see what it names")
    except OSError as failure:
        yield error(name, f"can't be checked: {failure}", "check the file or folder that it names")
    except (ValueError, RuntimeError, psutil.Error) as failure:
        yield error(name, f"can't be checked: {failure!r}", "tell Relay's makers of it")
