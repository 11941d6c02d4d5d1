"""`python -m relay.scripted_agent [--scenario NAME-OR-FILE]`: see the package's docstring.

Environment: SCRIPTED_SCENARIO (when there is no --scenario), SCRIPTED_SESSION (its own session's id),
SCRIPTED_MODEL (instead of the scenario's), SCRIPTED_HOME (where it keeps which limits it has
already met). Ends with 0 at the end of its input, 2 when there is no scenario to play, 143 and 130 on
TERM and INT.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from relay.scripted_agent.player import Player
from relay.scripted_agent.scenario import ScenarioError, load, scenario_of
from relay.scripted_agent.stdio import Inbox, Outlet


def main(arguments: Sequence[str]) -> int:
    """Play the scenario that the arguments or the environment name; the exit status."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    _leave_no_path()
    try:
        scenario = load(scenario_of(arguments, os.environ))
    except ScenarioError as error:
        os.write(2, f"scripted agent: {error}\n".encode())
        return 2
    try:
        return Player(scenario, Inbox(), Outlet(), os.environ).run()
    except BrokenPipeError:
        return 1


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(128 + number)


def _leave_no_path() -> None:
    """Take the entry by which this package was found out of what the agent's own commands inherit."""
    here = str(Path(__file__).parent.parent.parent)
    entries = os.environ.pop("PYTHONPATH", "").split(os.pathsep)
    kept = [entry for entry in entries if entry and entry != here]
    if kept:
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
