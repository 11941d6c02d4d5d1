"""The daemon as a service of the user's: a systemd user unit, or a launchd agent on macOS.

`render` is pure; the rest writes the file and talks with systemctl or launchctl.
"""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from relay.errors import ConflictError, NotFoundError, UserError
from relay.store.atomic import read, replace

UNIT = "relay.service"
LABEL = "dev.relay.daemon"
MARK = "Written by `relay daemon install`"
"""What a file of ours says; another is not overwritten."""
RESTART_SECONDS = 5
WATCHDOG_SECONDS = 60
_KEPT = ("PATH", "RELAY_STATE_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "LANG", "TZ")
_CALL_SECONDS = 30.0


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
    kept = {name: env[name] for name in _KEPT if env.get(name)}
    if platform == "darwin":
        path = home / "Library/LaunchAgents" / f"{LABEL}.plist"
        return Service(manager="launchd", path=path, content=launchd_agent(command, kept))
    if platform.startswith("linux"):
        config = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
        path = config / "systemd/user" / UNIT
        return Service(manager="systemd", path=path, content=systemd_unit(command, kept).encode())
    raise UserError("a service can be installed on Linux and macOS alone", hint="use `relay daemon start`")


def systemd_unit(command: tuple[str, ...], env: Mapping[str, str]) -> str:
    """The unit: ready once the API answers, watched, restarted after a failure; agents outlive it."""
    words = " ".join(_quoted(word) for word in command)
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
        f"ExecStart={words}",
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


def install(service: Service, *, force: bool = False) -> str:
    """Write the file and have the service started; "" or why it could not be started.

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
        _call("launchctl", "unload", str(service.path))
        return _call("launchctl", "load", "-w", str(service.path))
    problem = _call("systemctl", "--user", "daemon-reload")
    return problem or _call("systemctl", "--user", "enable", "--now", UNIT)


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
    return problem or _call("systemctl", "--user", "daemon-reload")


def installed(service: Service) -> bool:
    """Its file is there and was written by Relay."""
    there = read(service.path)
    return there is not None and MARK.encode() in there


def state(service: Service) -> str:
    """What the service manager says of it, in a word or two; "" when it cannot be asked."""
    if service.manager != "systemd" or not installed(service):
        return ""
    return _asked("systemctl", "--user", "is-active", UNIT)


def act(service: Service, verb: str) -> str:
    """Have the service started, stopped or restarted; "" or why it was not."""
    if service.manager == "launchd":
        target = f"gui/{os.getuid()}/{LABEL}"
        words = {"start": ("kickstart", target), "restart": ("kickstart", "-k", target)}
        return _call("launchctl", *words.get(verb, ("kill", "SIGTERM", target)))
    return _call("systemctl", "--user", verb, UNIT)


def main_pid(service: Service) -> int:
    """The pid of the daemon that the service manager runs; 0 when it runs none."""
    if service.manager != "systemd" or not installed(service):
        return 0
    told = _asked("systemctl", "--user", "show", "--property=MainPID", "--value", UNIT)
    return int(told) if told.isdigit() else 0


def _call(*command: str) -> str:
    """Run it; "" or what went wrong."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not found"
    try:
        done = subprocess.run(
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
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).strip() or f"status {done.returncode}"
    return f"`{' '.join(command)}`: {said}"


def _asked(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip()
