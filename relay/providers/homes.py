"""Folders where CLIs keep their sessions: by the environment, the platform and the known accounts."""

from __future__ import annotations

import ntpath
import posixpath

from relay.providers.store_protocol import Machine


def account_homes(
    machine: Machine, provider: str, variable: str, defaults: tuple[str, ...]
) -> tuple[str, ...]:
    """The folders of a CLI, each once: the one that its variable names, its defaults, its accounts'.

    Args:
        variable: of the environment; "" for a CLI that has none.
        defaults: relative to the user's home folder.
    """
    named = machine.env.get(variable, "") if variable else ""
    folders = [*(part.strip() for part in named.split(",")), *(in_home(machine, each) for each in defaults)]
    return unique(machine, *folders, *machine.accounts.get(provider, ()))


def in_home(machine: Machine, relative: str) -> str:
    """A folder of the user's home folder."""
    windows = machine.platform == "win32" and "\\" in machine.home
    return ntpath.join(machine.home, relative) if windows else posixpath.join(machine.home, relative)


def data_home(machine: Machine) -> str:
    """Where programs keep their data: XDG_DATA_HOME, on every platform as the CLIs of Node and Bun do it."""
    return machine.env.get("XDG_DATA_HOME") or in_home(machine, ".local/share")


def config_home(machine: Machine) -> str:
    """The platform's folder for settings: ~/.config, ~/Library/Application Support, %APPDATA%."""
    if machine.platform == "darwin":
        return in_home(machine, "Library/Application Support")
    if machine.platform == "win32":
        return machine.env.get("APPDATA") or in_home(machine, "AppData/Roaming")
    return machine.env.get("XDG_CONFIG_HOME") or in_home(machine, ".config")


def unique(machine: Machine, *folders: str) -> tuple[str, ...]:
    """Absolute folders, each once, without a slash at the end; "~/" is the user's home folder."""
    found: dict[str, None] = {}
    for folder in folders:
        path = in_home(machine, folder[2:]) if folder.startswith("~/") else folder
        plain = path.rstrip("/\\") if len(path) > 1 else path
        if plain and (posixpath.isabs(plain) or ntpath.splitdrive(plain)[0]):
            found[plain] = None
    return tuple(found)
