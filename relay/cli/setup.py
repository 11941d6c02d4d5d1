"""`relay init`, `trust` and `ui`: set a repository up, and let a browser in."""

from __future__ import annotations

import getpass
import os
from datetime import UTC, datetime
from pathlib import Path

import click

from relay.cli.base import at_terminal, command, say, settings
from relay.cli.client import connect
from relay.cli.tables import print_json
from relay.errors import NoRepositoryError, NotTrustedError
from relay.store.repo_root import repository_root


@command("init")
def init() -> None:
    """Write .relay/relay.toml (every key as a comment), the ignore rules, and starter tasks for `eval`.

    What is there already is left alone.
    """
    from relay.store.starter import write_starter

    root = own_repository()
    made = write_starter(root)
    if settings().as_json:
        print_json({"root": str(root), "made": [str(path) for path in made]})
        return
    for path in made:
        say(f"wrote {path.relative_to(root)}")
    if not made:
        say("everything is there already")
    say("\nNext: relay doctor             whether all is there, and which agents")
    say('      relay run "the task"     begin')


@command("trust")
@click.option("-y", "--yes", is_flag=True, help="Trust it without being asked.")
@click.option("--forget", is_flag=True, help="Trust nothing in this repository any more.")
def trust(yes: bool, forget: bool) -> None:
    """Show what this repository's relay.toml would run or change, and trust it.

    Trust holds for the file as it is now, in this place.
    """
    from relay.store.places import StatePlaces
    from relay.store.trust import TrustStore

    root = own_repository()
    if forget:
        number = TrustStore(StatePlaces.locate(os.environ).ensure().trust).forget(root)
        say(f"forgot {number}" if number else "nothing was trusted here")
        return
    ask_for_trust(root, yes=yes)


@command("ui")
@click.option("--open", "opening", is_flag=True, help="Open it in the browser.")
def ui(opening: bool) -> None:
    """Print a link that lets a browser in, good once and for a minute."""
    with connect(settings()) as client:
        made = client.post("/api/ticket")
    if settings().as_json:
        print_json(made)
    else:
        click.echo(made["url"])
    if opening:
        import webbrowser

        webbrowser.open(made["url"])


def own_repository(folder: Path | None = None) -> Path:
    """Top of the repository that a folder (this one) belongs to.

    Raises:
        NoRepositoryError: it belongs to none.
    """
    here = folder or Path.cwd()
    root = repository_root(here)
    if not (root / ".git").exists():
        raise NoRepositoryError(f"{here} is in no git repository", hint="make one: git init")
    return root


def ask_for_trust(folder: Path, *, yes: bool = False) -> None:
    """Show what a repository's relay.toml could do, and record the user's trust.

    Raises:
        NotTrustedError: the user does not want it, or nobody can be asked.
        ConfigError, StoreError: the file or the store of trusts is not in order.
    """
    from relay.providers.table import provider_names
    from relay.store.config_file import load_effective
    from relay.store.places import StatePlaces
    from relay.store.trust import TrustStore
    from relay.store.user_config import user_config_dir

    root = repository_root(folder)
    effective = load_effective(root, user_config_dir(os.environ), known=provider_names())
    loaded = effective.loaded_repo
    if loaded is None or not loaded.present:
        say("there is no .relay/relay.toml here: nothing to trust")
        return
    if not effective.needs_trust:
        say(f"{loaded.path} runs nothing: it needs no trust")
        return
    store = TrustStore(StatePlaces.locate(os.environ).ensure().trust)
    if store.is_trusted(root, loaded.sha256):
        say(f"{loaded.path} is trusted already")
        return
    click.echo(f"{loaded.path} says what runs on this machine:")
    for line in effective.needs_trust:
        click.echo(f"  {line}")
    if not yes:
        if not at_terminal():
            raise NotTrustedError(
                "not trusted: nobody can be asked here", hint="if you agree: relay trust --yes"
            )
        if not click.confirm("Trust it?", default=False):
            raise NotTrustedError(f"{loaded.path} is not trusted")
    # What is trusted is what was shown: the hash of the bytes that were read above.
    store.record(root, loaded.sha256, getpass.getuser(), datetime.now(UTC))
    say(f"trusted (sha256 {loaded.sha256[:12]})")
