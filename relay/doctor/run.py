"""All the checks in their order; called by `relay.cli.doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from relay.doctor import agents, machine, repository, state
from relay.doctor.check import Check, error, guarded
from relay.errors import RelayError
from relay.store.places import StatePlaces
from relay.store.repo_root import repository_root
from relay.store.user_config import user_config_dir
from relay.version import VERSION


def checks(env: Mapping[str, str], cwd: Path, *, now: datetime, answering: str) -> Iterator[Check]:
    """Every check, one after the other; none raises.

    Args:
        env: the environment.
        cwd: the folder that the user stands in.
        answering: version of the daemon that answers; "" when none does.
    """
    yield from guarded("python", machine.versions)
    yield from guarded("git", lambda: machine.git(env))
    yield from guarded("clock", lambda: machine.clock(now))
    yield from guarded("open files", machine.limits)
    try:
        places = StatePlaces.locate(env)
        config_dir = user_config_dir(env)
    except RelayError as failure:
        yield error("state folder", failure.message, failure.hint)
        return
    yield from guarded("disk of state", lambda: machine.disk("state", places.root))
    yield from guarded("fifo", lambda: machine.fifos(places.fifos))
    yield from guarded("state folder", lambda: state.folder(places))
    yield from guarded("daemon", lambda: state.daemon(places, VERSION, answering))
    yield from guarded("sessions", lambda: state.sessions(places))
    yield from guarded("audit log", lambda: state.audit(places))
    yield from guarded("repository", lambda: repository.repository(cwd))
    root = repository_root(cwd)
    yield from guarded("disk of repository", lambda: machine.disk("repository", root))
    inside = root if (root / ".git").exists() else None
    config, told = repository.configuration(places, inside, config_dir)
    yield from told
    yield from guarded("agents", lambda: agents.agents(config, env))
