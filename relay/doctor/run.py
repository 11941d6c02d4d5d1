"""All the checks in their order; called by `relay.cli.doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from attrs import frozen

from relay.doctor import agents, machine, repository, state
from relay.doctor.check import Check, error, guarded
from relay.errors import RelayError
from relay.store.places import StatePlaces
from relay.store.repo_root import repository_root
from relay.store.user_config import user_config_dir
from relay.version import VERSION


@frozen(kw_only=True)
class Told:
    """What the command line knows of the daemon.

    Args:
        answering: version of the daemon that answers; "" when none does.
        trouble: why none answers, where it is more than that none runs.
        service: path of the installed service's file, or "".
        service_state: what the service manager says of it, or "".
        service_starts: what it starts, if that is not this Relay.
    """

    answering: str = ""
    trouble: str = ""
    service: str = ""
    service_state: str = ""
    service_starts: str = ""


def checks(env: Mapping[str, str], cwd: Path, *, now: datetime, told: Told) -> Iterator[Check]:
    """Every check, one after the other; none raises.

    Args:
        env: the environment.
        cwd: the folder that the user stands in.
    """
    yield from guarded("python", machine.versions)
    yield from guarded("home", lambda: machine.home(env))
    yield from guarded("git", lambda: machine.git(env, cwd))
    yield from guarded("open files", machine.limits)
    yield from guarded("inotify", machine.inotify)
    yield from guarded("processes", lambda: machine.processes_of_ours(env))
    try:
        places = StatePlaces.locate(env)
        config_dir = user_config_dir(env)
    except RelayError as failure:
        yield error("state folder", failure.message, failure.hint)
        return
    except RuntimeError as failure:
        yield error("state folder", f"no home folder is known: {failure}", "export HOME")
        return
    yield from guarded("clock", lambda: machine.clock(now, places))
    yield from guarded("disk of state", lambda: machine.disk("state", places.root))
    yield from guarded("fifo", lambda: machine.fifos(places.fifos))
    yield from guarded("state folder", lambda: state.folder(places))
    yield from guarded("daemon", lambda: state.daemon(places, VERSION, told.answering, told.trouble))
    yield from guarded(
        "service", lambda: state.service(told.service, told.service_state, told.service_starts)
    )
    yield from guarded("sessions", lambda: state.sessions(places))
    yield from guarded("audit log", lambda: state.audit(places))
    yield from guarded("repository", lambda: repository.repository(cwd))
    root = repository_root(cwd)
    inside = root if (root / ".git").exists() else None
    if inside is not None:
        yield from guarded("disk of repository", lambda: machine.disk("repository", root))
        yield from guarded(".relay", lambda: repository.relay_folder(root))
    config, said = repository.configuration(places, inside, config_dir)
    yield from said
    yield from guarded("agents", lambda: agents.agents(config, env))
