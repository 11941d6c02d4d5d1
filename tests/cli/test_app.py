from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from relay.cli import app
from relay.cli.base import Group
from relay.version import VERSION
from tests.fakes.api_server import ApiServer, refusal, session

HEAVY = ("click", "rich", "httpx2", "trio", "quart", "thespian", "attrs", "orjson", "pygit2")


def imported(code: str) -> set[str]:
    """The modules of `HEAVY`, and Relay's, that a piece of Python imports."""
    script = f"import sys\n{code}\nprint('|'.join(sys.modules), file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stderr.strip().split("|"))


def test_version_imports_neither_a_package_nor_the_commands() -> None:
    modules = imported("sys.argv = ['relay', '--version']\nfrom relay.__main__ import main\nmain()")

    assert {name for name in modules if name.split(".")[0] in HEAVY} == set()
    assert {name for name in modules if name.startswith("relay")} == {
        "relay",
        "relay.__main__",
        "relay.version",
    }


def test_help_imports_no_command() -> None:
    modules = imported("from relay.cli.app import run\nrun(['--help'])")

    assert {"relay.cli.run", "relay.cli.client", "httpx2", "rich", "trio"} & modules == set()


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(flag: str) -> None:
    ran = subprocess.run([sys.executable, "-m", "relay", flag], capture_output=True, text=True, check=True)

    assert ran.stdout == f"relay {VERSION}\n"


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_command_of_the_table_is_there(name: str) -> None:
    module, attribute = app.COMMANDS[name][0].split(":")
    command = getattr(import_module(module), attribute)

    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.help


@pytest.mark.parametrize("name", [name for name in app.COMMANDS if name != "demo"])
def test_every_command_takes_the_common_options_behind_it(name: str, relay) -> None:
    ran = relay(name, "--json", "--quiet", "--help")

    assert ran.code == 0
    assert ran.out.startswith(f"Usage: relay {name}")


def test_without_a_command_help_is_printed(relay) -> None:
    ran = relay()

    assert ran.code == 0
    assert "Begin a session and follow it." in ran.out


@pytest.mark.parametrize(
    ("arguments", "want_words"),
    [
        (["frobnicate"], "no command 'frobnicate'"),
        (["sesions"], "did you mean `relay sessions`?"),
        (["status", "--bad"], "--bad"),
        (["run"], "TASK"),
        (["run", "x", "--allow", "everything"], "'everything'"),
        (["run", "x", "-f", "1.5"], "1.5"),
        (["classify", "--provider", "x", "--channel", "tea"], "channel 'tea'"),
    ],
)
def test_wrong_usage_is_2_and_says_what(arguments: list[str], want_words: str, relay) -> None:
    ran = relay(*arguments)

    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert want_words in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    "command", ["status", "sessions", "attach", "logs", "stop", "approvals", "circuit", "ui"]
)
def test_no_daemon_is_3(command: str, relay) -> None:
    ran = relay(command)

    assert ran.code == 3
    assert ran.err.startswith("error: no daemon is running\n  ")
    assert "relay daemon start" in ran.err


@pytest.mark.parametrize(
    ("status", "code", "want_exit"),
    [
        (400, "bad_config", 2),
        (400, "no_repository", 2),
        (401, "unauthorized", 4),
        (403, "not_allowed", 4),
        (403, "not_trusted", 4),
        (404, "not_found", 5),
        (405, "method_not_allowed", 1),
        (409, "conflict", 1),
        (409, "a code of a later version", 1),
        (404, "a code of a later version", 5),
        (422, "integrity", 1),
        (500, "internal", 1),
        (502, "provider_failed", 1),
        (504, "timed_out", 1),
        (507, "disk_full", 1),
    ],
)
def test_a_refusal_of_the_daemon_keeps_its_words_and_gets_its_exit_code(
    status: int, code: str, want_exit: int, relay, server: ApiServer
) -> None:
    server.answers["GET /api/sessions"] = refusal(status, code, "it can't be", "do this instead")

    ran = relay("sessions")

    assert ran.code == want_exit
    assert ran.err == "error: it can't be\n  do this instead\n"


def test_a_refusal_without_words_is_still_an_error(relay, server: ApiServer) -> None:
    server.answers["GET /api/sessions"] = (500, ["?"])

    ran = relay("sessions")

    assert (ran.code, ran.err) == (1, "error: the daemon answered 500\n")


def test_what_an_error_quotes_cannot_move_the_cursor(relay, server: ApiServer) -> None:
    server.answers["GET /api/sessions"] = refusal(
        404, "not_found", "no \x1b[2Jsuch \u202ething", "\x1b]0;t\x07go"
    )

    assert relay("sessions").err == "error: no such thing\n  go\n"


def test_an_unreadable_file_is_an_error_in_words(relay, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")

    ran = relay("contract", "verify", str(tmp_path))

    assert ran.code == 5
    assert "signing key" in ran.err


def test_a_reader_that_goes_away_is_no_traceback(server: ApiServer) -> None:
    server.views = [session(f"s-{number:06}", "COMPLETED") for number in range(2000)]
    command = f"{sys.executable} -m relay sessions --all | head -n 1"

    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert ran.stdout.startswith("session ")
    assert ran.stderr == ""


def test_a_default_command_is_found_behind_options(relay, server: ApiServer) -> None:
    server.answers["GET /api/circuit"] = (200, [])

    assert relay("circuit", "--json").out == "[]\n"
    assert relay("--json", "circuit").out == "[]\n"
    assert relay("circuit", "list", "--json").out == "[]\n"


def test_groups_say_which_command_is_their_default() -> None:
    groups = {
        name: getattr(import_module(where.split(":")[0]), where.split(":")[1])
        for name, (where, _) in app.COMMANDS.items()
    }

    defaults = {name: group.default for name, group in groups.items() if isinstance(group, Group)}

    assert defaults == {
        "approvals": "list",
        "audit": "",
        "circuit": "list",
        "contract": "show",
        "daemon": "run",
        "detect": "list",
        "providers": "list",
    }
