"""`relay eval`: the golden suite, and what it measures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from relay.cli.base import command, say, settings
from relay.cli.tables import plural, print_json, show_table
from relay.core.quoting import one_line
from relay.errors import NoRepositoryError

if TYPE_CHECKING:
    from relay.core.config import ProfileSettings
    from relay.evaluation.report import Report

FLOOR = 0.95
_MOST_SHOWN = 5


@command("eval")
@click.option(
    "--path",
    type=click.Path(exists=True, path_type=Path),
    help="A file of routing cases, or a folder of a suite, instead of Relay's own and this repository's.",
)
@click.option(
    "--floor",
    type=click.FloatRange(0, 1),
    default=FLOOR,
    show_default=True,
    help="The least that each score has to be.",
)
def evaluate(path: Path | None, floor: float) -> None:
    """Measure what a continuation carries over, and whether tasks are told apart.

    Runs Relay's golden suite and the cases of this repository's .relay/eval. Sessions of every agent are
    written, found in their stores, and made into a contract; what is missing in it counts. No agent is
    asked, nothing is changed. Exit code 1 when a score is below the floor.
    """
    from relay.evaluation.cases import GOLDEN, fidelity_cases, files_of, routing_cases
    from relay.evaluation.report import Report
    from relay.evaluation.run import carried, routed

    profiles, own = _of_this_repository()
    suites = [path] if path else [GOLDEN, *([own] if own and own.is_dir() else [])]
    routing, fidelity = [], []
    for suite in suites:
        with_tasks, with_sessions = files_of(suite)
        routing += [routed(case, profiles) for file in with_tasks for case in routing_cases(file)]
        fidelity += [carried(case) for file in with_sessions for case in fidelity_cases(file)]
    report = Report(routing=tuple(routing), fidelity=tuple(fidelity), floor=floor)
    if settings().as_json:
        print_json(report.view)
    else:
        _show(report)
    if not report.passed:
        click.get_current_context().exit(1)


def _show(report: Report) -> None:
    if report.fidelity and not settings().quiet:
        show_table(
            ("KIND", "RECALL", "PRECISION", "FACTS", "MISSED", "NOT ASKED FOR"),
            [
                (
                    kind.kind.replace("_", " "),
                    f"{kind.recall:.4f}",
                    f"{kind.precision:.4f}",
                    kind.expected,
                    kind.expected - kind.found,
                    kind.surplus,
                )
                for kind in report.kinds
            ],
            empty="",
        )
        say("")
        rows = [(name, count, f"{score:.4f}") for name, count, score in report.stores]
        show_table(("STORE", "CASES", "SCORE"), rows, empty="")
        say("")
    for routed in report.routing:
        if routed.wrong:
            click.echo(f"task {routed.case.name}: {routed.wrong}")
    for result in report.fidelity:
        lines = [f"  {result.error}"] if result.error else []
        told = (
            ("misses", result.missing),
            ("adds", result.surplus),
            ("not in the brief", result.not_in_brief),
        )
        for what, found in told:
            lines += [
                f"  {what} {kind.replace('_', ' ')}: {one_line(text)}" for kind, text in found[:_MOST_SHOWN]
            ]
            if len(found) > _MOST_SHOWN:
                lines.append(f"  {what} {len(found) - _MOST_SHOWN} more")
        if lines:
            click.echo(f"{result.case.name} ({result.case.store}): {result.score:.4f}")
            click.echo("\n".join(lines))
    if report.routing:
        right = sum(not result.wrong for result in report.routing)
        click.echo(
            f"routing   {report.accuracy:.4f}  {right} of {plural(len(report.routing), 'task')} told right"
        )
    if report.fidelity:
        click.echo(f"fidelity  {report.score:.4f}  over {plural(len(report.fidelity), 'session')}")
    if not report.passed:
        click.echo(f"error: below the floor of {report.floor:g}", err=True)


def _of_this_repository() -> tuple[tuple[ProfileSettings, ...], Path | None]:
    """The profiles that hold here, and the folder of the repository's own cases."""
    from relay.cli.setup import own_repository
    from relay.providers.table import provider_names
    from relay.store.config_file import load_effective
    from relay.store.places import RepoPlaces
    from relay.store.user_config import user_config_dir

    try:
        root = own_repository()
    except NoRepositoryError:
        return (), None
    effective = load_effective(root, user_config_dir(os.environ), known=provider_names())
    return effective.config.profiles, RepoPlaces(root=root).folder / "eval"
