"""Where editors keep their data on each platform, and which folder a URI names."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.providers.store_protocol import Machine
from relay.providers.vscode_places import path_of, user_folders, workspace_folder
from tests.fakes.lifting import FILES

URIS = {
    "file:///code/demo": "/code/demo",
    "file:///code/my%20shop%20%231/a%C3%A9": "/code/my shop #1/a\u00e9",
    "file:///c%3A/Users/ada/demo": "c:/Users/ada/demo",
    "file:///C:/Users/ada/demo": "C:/Users/ada/demo",
    "file://localhost/code/demo": "/code/demo",
    "file://server/share/demo": "//server/share/demo",
    "vscode-remote://wsl%2Bubuntu/home/ada/demo": "",
    "untitled:Untitled-1": "",
    "/code/demo": "",
    "file://[bad": "",
    "": "",
}


@pytest.mark.parametrize("uri", URIS)
def test_a_file_uri_names_a_local_path_and_no_other_uri_does(uri: str) -> None:
    assert path_of(uri) == URIS[uri]


def test_a_uri_in_the_shape_that_is_stored_names_its_path() -> None:
    windows = {
        "$mid": 1,
        "fsPath": "c:\\code\\demo\\a.py",
        "path": "/c:/code/demo/a.py",
        "scheme": "file",
    }
    assert path_of(windows) == "c:/code/demo/a.py"
    assert path_of({"path": "/c:/code/demo/a.py", "scheme": "file"}) == "c:/code/demo/a.py"
    assert path_of({"path": "/code/demo/", "scheme": "file"}) == "/code/demo"
    assert path_of({"external": "file:///code/a%20b", "path": "/other"}) == "/code/a b"
    assert path_of({"path": "/code/demo", "scheme": "vscode-remote"}) == ""
    assert path_of(7) == path_of(None) == path_of({}) == path_of({"path": 3}) == ""


@pytest.mark.parametrize(
    ("platform", "env", "first"),
    [
        ("linux", {}, "/home/ada/.config/Code/User"),
        ("linux", {"XDG_CONFIG_HOME": "/cfg"}, "/cfg/Code/User"),
        ("darwin", {}, "/home/ada/Library/Application Support/Code/User"),
        (
            "win32",
            {"APPDATA": "C:\\Users\\ada\\AppData\\Roaming"},
            "C:\\Users\\ada\\AppData\\Roaming/Code/User",
        ),
    ],
)
def test_each_platform_has_its_own_folder_for_settings(
    platform: str, env: dict[str, str], first: str
) -> None:
    folders = user_folders(Machine(env=env, home="/home/ada", platform=platform))
    assert folders[0] == first
    for app in ("Code - Insiders", "VSCodium", "Cursor", "Windsurf"):
        assert any(folder.endswith(f"/{app}/User") for folder in folders)
    assert "/home/ada/.vscode-server/data/User" in folders
    assert len(set(folders)) == len(folders)


def test_a_portable_installation_is_found_where_it_says() -> None:
    folders = user_folders(Machine(env={"VSCODE_PORTABLE": "/usb/data"}, home="/home/ada"))
    assert "/usb/data/user-data/User" in folders


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ('{"folder": "file:///code/demo"}', "/code/demo"),
        ('{"workspace": "file:///code/all/shop.code-workspace"}', "/code/all"),
        ('{"configuration": "file:///code/all/shop.code-workspace"}', "/code/all"),
        ('{"workspace": "file:///home/ada/.config/Code/Workspaces/17/workspace.json"}', ""),
        ('{"folder": "vscode-remote://ssh-remote%2Bbox/srv/demo"}', ""),
        ('{"folder": 7}', ""),
        ("{torn", ""),
        ("[]", ""),
    ],
)
def test_a_windows_folder_is_what_its_workspace_file_says(tmp_path: Path, text: str, folder: str) -> None:
    (tmp_path / "workspace.json").write_text(text)
    assert workspace_folder(FILES, str(tmp_path)) == folder


def test_a_storage_folder_without_a_workspace_file_has_no_folder(tmp_path: Path) -> None:
    assert workspace_folder(FILES, str(tmp_path)) == ""
