"""Single checks that the command line's tests do not come by."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from relay.doctor import machine, state
from relay.doctor.check import Check, Status
from relay.store.keys import load_or_make_signing_key, load_or_make_token
from relay.store.places import StatePlaces


@pytest.fixture
def places(tmp_path: Path) -> StatePlaces:
    return StatePlaces.locate({"RELAY_STATE_DIR": str(tmp_path / "state")}).ensure()


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


@pytest.mark.parametrize(
    ("path", "told", "other", "status"),
    [
        ("", "", "", Status.SKIPPED),
        ("/u", "active", "", Status.OK),
        ("/u", "", "", Status.OK),
        ("/u", "failed (watchdog)", "", Status.ERROR),
        ("/u", "active", "/gone/python", Status.WARNING),
    ],
)
def test_the_service(path: str, told: str, other: str, status: Status) -> None:
    assert [check.status for check in state.service(path, told, other)] == [status]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is a file system without FIFOs")
def test_a_folder_that_takes_no_fifo() -> None:
    (check,) = machine.fifos(Path("/proc/relay/fifo"))

    assert (check.status, "RELAY_STATE_DIR" in check.mend) == (Status.ERROR, True)


def test_a_fifo_leaves_nothing(places: StatePlaces) -> None:
    (check,) = machine.fifos(places.fifos)

    assert (check.status, list(places.fifos.iterdir())) == (Status.OK, [])


def test_our_own_processes_can_be_looked_at() -> None:
    (check,) = machine.processes_of_ours(os.environ)

    assert check.status is Status.OK


@pytest.mark.parametrize("year", [1970, 2300])
def test_a_clock_that_can_not_be_right(places: StatePlaces, year: int) -> None:
    (check,) = machine.clock(datetime(year, 1, 1, tzinfo=UTC), places)

    assert check.status is Status.ERROR


def test_a_key_that_is_gone_although_it_signed_something(places: StatePlaces) -> None:
    load_or_make_token(places.token)
    (places.anchors / "x.json").write_text("{}")

    assert named(list(state.folder(places)), "signing key").status is Status.ERROR
    assert not places.signing_key.exists()


def test_a_token_that_is_none_does_not_hide_the_key(places: StatePlaces) -> None:
    load_or_make_signing_key(places.signing_key)
    places.token.write_text("short")
    places.token.chmod(0o600)

    found = list(state.folder(places))

    assert named(found, "signing key").status is Status.OK
    assert (named(found, "token").status, places.token.read_text()) == (Status.ERROR, "short")
