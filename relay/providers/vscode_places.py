"""Where editors of the VS Code family keep what extensions store, and which folder a window works in.

As read in public sources of VS Code 1.109: a <User> folder for each application, in it a folder for each
workspace with its `workspace.json`, and `globalStorage` for the rest. Used by the editors' stores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote, urlsplit

from relay.core.paths import normal
from relay.providers import shapes
from relay.providers.homes import config_home, in_home, unique
from relay.providers.store_protocol import Machine, StoreFiles

APPS = ("Code", "Code - Insiders", "VSCodium", "Code - OSS", "Cursor", "Windsurf")
"""Folders of the applications in the platform's folder for settings."""
_SERVERS = (".vscode-server", ".vscode-server-insiders", ".vscodium-server", ".cursor-server")
"""Folders in the home folder of a machine that editors reach from elsewhere."""
_FLATPAKS = (
    ("com.visualstudio.code", "Code"),
    ("com.visualstudio.code-insiders", "Code - Insiders"),
    ("com.vscodium.codium", "VSCodium"),
)
_SLASHED_DRIVE = re.compile(r"/[A-Za-z]:(?:/|\Z)")
_SMALL = 256 * 1024


def user_folders(machine: Machine, apps: Iterable[str] = APPS) -> tuple[str, ...]:
    """The <User> folders of these applications, absolute, whether they exist or not.

    VSCODE_PORTABLE names a folder that holds the data of a portable installation.
    """
    apps = tuple(apps)
    base = config_home(machine)
    folders = [f"{base}/{app}/User" for app in apps]
    portable = machine.env.get("VSCODE_PORTABLE", "")
    if portable:
        folders.append(f"{portable.rstrip('/')}/user-data/User")
    if "Code" in apps:
        folders += [in_home(machine, f"{server}/data/User") for server in _SERVERS]
        if machine.platform == "linux":
            folders += [in_home(machine, f".var/app/{name}/config/{app}/User") for name, app in _FLATPAKS]
    elif "Cursor" in apps:
        folders.append(in_home(machine, ".cursor-server/data/User"))
    return unique(machine, *folders)


def path_of(uri: object) -> str:
    """The local path that a `file:` URI names, given as text or as VS Code stores it; "" for any other.

    Percent escapes are decoded; a Windows path is given with forward slashes.
    """
    if isinstance(uri, Mapping):
        scheme = shapes.text(uri, "scheme")
        if scheme not in ("", "file"):
            return ""
        told = path_of(shapes.text(uri, "external"))
        return told or normal(_drive(shapes.text(uri, "fsPath") or shapes.text(uri, "path")))
    if not isinstance(uri, str) or not uri.startswith("file:"):
        return ""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    path = unquote(parts.path, errors="replace")
    if parts.netloc and parts.netloc != "localhost":
        return normal(f"//{parts.netloc}{path}").replace("\\", "/")
    return normal(_drive(path))


def workspace_folder(files: StoreFiles, storage: str) -> str:
    """The folder that the workspace of this storage folder is, as its `workspace.json` says; or "".

    Of a workspace of several folders, the one where its file lies. A folder on another machine is "".
    """
    told: Mapping[str, Any] = shapes.record(files.read(f"{storage}/workspace.json", _SMALL) or b"") or {}
    folder = path_of(told.get("folder"))
    if folder:
        return folder
    several = path_of(told.get("workspace")) or path_of(told.get("configuration"))
    untitled = PurePath(several).name == "workspace.json"
    return "" if not several or untitled else normal(several.rpartition("/")[0])


def _drive(path: str) -> str:
    return path[1:] if _SLASHED_DRIVE.match(path) else path
