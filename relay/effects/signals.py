"""Which signals end the daemon, and that its agents inherit none of them as ignored.

A program that `nohup` or a script's `&` has started ignores HUP, or INT and QUIT, and so does all that it
starts: an agent could not be interrupted. A signal with a handler is back at its default in a child.
"""

from __future__ import annotations

import signal

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OF_PYTHON = ("SIGPIPE", "SIGXFSZ")
"""Ignored by the interpreter itself, which puts them back for every child."""


def claim_signals() -> tuple[signal.Signals, ...]:
    """Give every ignored signal a handler that does nothing; called once, in the main thread.

    Returns:
        What ends the daemon: TERM, INT and HUP, but for those that whoever started it had ignored.
    """
    ignored = {
        number
        for number in signal.valid_signals()
        if signal.getsignal(number) is signal.SIG_IGN and _name(number) not in _OF_PYTHON
    }
    for number in ignored:
        signal.signal(number, _nothing)
    return tuple(number for number in _ENDING if number not in ignored)


def _name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else ""


def _nothing(number: int, frame: object) -> None:
    pass
