"""The daemon as a service of the user's: a systemd user unit, or a launchd agent on macOS.

`render` is pure; the rest writes the file and talks with systemctl or launchctl.
"""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import frozen

from relay.errors import ConflictError, NotFoundError, UserError
from relay.providers.table import provider_named, provider_names
from relay.store.atomic import read, replace

UNIT = "relay.service"
LABEL = "dev.relay.daemon"
MARK = "Written by `relay daemon install`"
"""What a file of ours says; another is not overwritten."""
RESTART_SECONDS = 5
WATCHDOG_SECONDS = 60
_KEPT = (
    "PATH",
    "RELAY_STATE_DIR",
    "RELAY_CONFIG_DIR",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "LANG",
    "TZ",
)
"""What the daemon gets of the shell's environment, with the folders of the agents' logins. No secret is among
them, and none may be: everyone who may read the unit would see it."""
_EXEC = "ExecStart="
_CALL_SECONDS = 120.0
"""systemd waits 90 s for a daemon to be ready before it gives up on it."""


@frozen(kw_only=True)
class Service:
    """Where the service is described, and how.

    Args:
        manager: "systemd" or "launchd".
        path: of the file.
        content: of the file.
    """

    manager: str
    path: Path
    content: bytes


def describe(env: Mapping[str, str], platform: str = sys.platform) -> Service:
    """The service for this user and machine.

    Raises:
        UserError: the platform has neither.
    """
    home = Path(env.get("HOME") or Path("~").expanduser())
    command = (sys.executable, "-P", "-m", "relay", "daemon", "run", "--quiet")
    names = dict.fromkeys((*_KEPT, *(provider_named(name).config_dir_env for name in provider_names())))
    kept = {name: env[name] for name in names if name and env.get(name)}
    if platform == "darwin":
        path = home / "Library/LaunchAgents" / f"{LABEL}.plist"
        return Service(manager="launchd", path=path, content=launchd_agent(command, kept))
    if platform.startswith("linux"):
        # As systemd does, a relative path is passed over (XDG base directory specification).
        named = Path(env.get("XDG_CONFIG_HOME", ""))
        config = named if named.is_absolute() else home / ".config"
        content = os.fsencode(systemd_unit(command, kept))
        return Service(manager="systemd", path=config / "systemd/user" / UNIT, content=content)
    raise UserError("a service can be installed on Linux and macOS alone", hint="use `relay daemon start`")


def systemd_unit(command: tuple[str, ...], env: Mapping[str, str]) -> str:
    """The unit: ready once the API answers, watched, restarted after a failure; agents outlive it."""
    program, *arguments = command
    # systemd takes a $ in the program's own path as it stands.
    words = " ".join([_quoted(program, variables=False), *map(_quoted, arguments)])
    lines = [
        f"# {MARK}; `relay daemon uninstall` removes it.",
        "[Unit]",
        "Description=Relay keeps coding tasks alive",
        "StartLimitIntervalSec=300",
        "StartLimitBurst=5",
        "",
        "[Service]",
        "Type=notify",
        "NotifyAccess=main",
        f"{_EXEC}{words}",
        *(f"Environment={_quoted(f'{name}={value}', variables=False)}" for name, value in env.items()),
        "Restart=on-failure",
        f"RestartSec={RESTART_SECONDS}",
        f"WatchdogSec={WATCHDOG_SECONDS}",
        "# The agents go on without the daemon, and the next one follows them.",
        "KillMode=process",
        "TimeoutStopSec=30",
        "UMask=0077",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def launchd_agent(command: tuple[str, ...], env: Mapping[str, str]) -> bytes:
    """The agent: started at login and again after a failure; the coding agents outlive it."""
    values = {
        "Label": LABEL,
        "Comment": MARK,
        "ProgramArguments": list(command),
        "EnvironmentVariables": dict(env),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": RESTART_SECONDS,
        "AbandonProcessGroup": True,
        "Umask": 0o077,
    }
    return plistlib.dumps(values)


def _quoted(word: str, *, variables: bool = True) -> str:
    """A word of a unit file: systemd splits at spaces and expands %, and $ in commands."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return '"' + (plain.replace("$", "$$") if variables else plain) + '"'


def install(service: Service, *, force: bool = False, make_room: Callable[[], None] = lambda: None) -> str:
    """Write the file and have the service started; "" or why it could not be started.

    Args:
        make_room: called once the file is written and the manager answers: ends a daemon that is not the
            service's.

    Raises:
        ConflictError: a file is there that Relay did not write.
        StoreError: it cannot be written.
    """
    there = read(service.path)
    if there is not None and MARK.encode() not in there and not force:
        raise ConflictError(
            f"{service.path} is there already and was not written by Relay",
            hint="look at it; --force replaces it",
        )
    service.path.parent.mkdir(parents=True, exist_ok=True)
    replace(service.path, service.content)
    if service.manager == "launchd":
        if problem := _missing("launchctl"):
            return problem
        _call("launchctl", "unload", str(service.path))
        make_room()
        return _call("launchctl", "load", "-w", str(service.path))
    if problem := _call("systemctl", "--user", "daemon-reload"):
        return problem
    if not main_pid(service):
        make_room()
    elif there != service.content:
        return _call("systemctl", "--user", "enable", UNIT) or act(service, "restart")
    _call("systemctl", "--user", "reset-failed", UNIT)
    return _call("systemctl", "--user", "enable", "--now", UNIT)


def uninstall(service: Service, *, force: bool = False) -> str:
    """End the service and remove its file; "" or what the service manager said.

    Raises:
        NotFoundError: none is installed. ConflictError: the file is not Relay's.
    """
    there = read(service.path)
    if there is None:
        raise NotFoundError(f"no service is installed ({service.path} is not there)")
    if MARK.encode() not in there and not force:
        raise ConflictError(f"{service.path} was not written by Relay", hint="--force removes it")
    if service.manager == "launchd":
        problem = _call("launchctl", "unload", "-w", str(service.path))
        service.path.unlink()
        return problem
    problem = _call("systemctl", "--user", "disable", "--now", UNIT)
    service.path.unlink()
    # Left behind where systemctl could not do it.
    (service.path.parent / "default.target.wants" / UNIT).unlink(missing_ok=True)
    return problem or _call("systemctl", "--user", "daemon-reload")


def installed(service: Service) -> bool:
    """Its file is there and was written by Relay."""
    there = read(service.path)
    return there is not None and MARK.encode() in there


def state(service: Service) -> str:
    """What the service manager says, such as "active" or "failed (watchdog)"; "" when it can't be asked."""
    if service.manager != "systemd" or not installed(service):
        return ""
    found = _asked("systemctl", "--user", "is-active", UNIT)
    if found in ("", "active"):
        return found
    result = _asked("systemctl", "--user", "show", "--property=Result", "--value", UNIT)
    return f"{found} ({result})" if result not in ("", "success") else found


def runs_other_program(service: Service) -> str:
    """What the installed file starts, if that is not what would be written now; "" when it is.

    As after a new Python, or when Relay was installed a second time elsewhere.
    """
    there = read(service.path) if installed(service) else None
    if there is None:
        return ""
    if service.manager == "launchd":
        try:
            told, wanted = (plistlib.loads(each)["ProgramArguments"] for each in (there, service.content))
        except (ValueError, KeyError, TypeError, plistlib.InvalidFileException):
            return "what can't be read"
        return "" if told == wanted else " ".join(map(str, told))
    told, wanted = (
        next((line for line in each.decode("utf-8", "replace").split("\n") if line.startswith(_EXEC)), _EXEC)
        for each in (there, service.content)
    )
    return "" if told == wanted else told.removeprefix(_EXEC) or "nothing"


def act(service: Service, verb: str) -> str:
    """Have the service started, stopped or restarted; "" or why it was not."""
    if service.manager == "launchd":
        target = f"gui/{os.getuid()}/{LABEL}"
        words = {"start": ("kickstart", target), "restart": ("kickstart", "-k", target)}
        return _call("launchctl", *words.get(verb, ("kill", "SIGTERM", target)))
    if verb != "stop":
        # After too many failures in a row systemd starts it no more, until it is told to forget them.
        _call("systemctl", "--user", "reset-failed", UNIT)
    return _call("systemctl", "--user", verb, UNIT)


def main_pid(service: Service) -> int:
    """The pid of the daemon that the service manager runs; 0 when it runs none."""
    if service.manager != "systemd" or not installed(service):
        return 0
    told = _asked("systemctl", "--user", "show", "--property=MainPID", "--value", UNIT)
    return int(told) if told.isdigit() else 0


def _missing(program: str) -> str:
    return "" if shutil.which(program) else f"{program} is not found"


def _call(*command: str) -> str:
    """Run it; "" or what went wrong."""
    done = _run(command)
    if isinstance(done, str):
        return done
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).strip() or f"status {done.returncode}"
    return f"`{' '.join(command)}`: {said}"


def _asked(*command: str) -> str:
    """What it prints; "" when it can't be run."""
    done = _run(command)
    return "" if isinstance(done, str) else done.stdout.strip()


def _run(command: tuple[str, ...]) -> subprocess.CompletedProcess[str] | str:
    if problem := _missing(command[0]):
        return problem
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"`{' '.join(command)}` did not end in {_CALL_SECONDS:.0f} s"
    except OSError as error:
        return f"`{' '.join(command)}`: {error.strerror or error}"
