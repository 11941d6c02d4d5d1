"""Wakes those who follow a run: when its files grow, and when its process dies.

One `Watch` serves the whole daemon (a user may have 128 inotify instances, not one for each session); the
effects port runs it. Without inotify a follower polls, and everything else stays as it is.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from relay.effects import processes
from relay.effects.processes import Identity

if sys.platform == "linux":
    import inotify_simple

if TYPE_CHECKING:
    from inotify_simple import INotify

_GATHER = 0.002
"""Seconds between two reads of the queue: equal events that come meanwhile are one for the kernel."""
_FIRST_POLL, _LAST_POLL = 0.005, 0.1
_NET = 30.0
"""Seconds after which a follower looks by itself, should an event have been lost."""
_FILES = frozenset({"out", "err", "exit"})


class Subscription:
    """One follower's alarm clock. `arm`, look at the files, and only then `wait`: so no change is missed."""

    def __init__(self, polling: bool) -> None:
        self.polling = polling
        self._changed = trio.Event()
        self._delay = _FIRST_POLL

    def arm(self) -> None:
        """From now on a change ends the next `wait`."""
        if self._changed.is_set():
            self._changed = trio.Event()

    def poke(self) -> None:
        """Something has changed."""
        self._changed.set()

    def busy(self) -> None:
        """There was something to read: poll quickly again."""
        self._delay = _FIRST_POLL

    async def wait(self) -> None:
        """Return when something may have changed since `arm`."""
        if self.polling:
            await trio.sleep(self._delay)
            self._delay = min(self._delay * 2, _LAST_POLL)
        else:
            with trio.move_on_after(_NET):
                await self._changed.wait()


class Watch:
    """Watches run folders and processes for any number of followers.

    Use: `watch = await nursery.start(Watch().run)`; it ends with the nursery.
    """

    def __init__(self) -> None:
        self._inotify: INotify | None = None
        self._nursery: trio.Nursery | None = None
        self._subscribers: dict[int, list[Subscription]] = {}

    async def run(self, task_status: trio.TaskStatus[Watch] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve the subscriptions until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._inotify = _open_inotify()
                task_status.started(self)
                if self._inotify is None:
                    await trio.sleep_forever()
                else:
                    await self._serve(self._inotify)
        finally:
            self._nursery = None
            if self._inotify is not None:
                self._inotify.close()
                self._inotify = None

    @contextmanager
    def on(self, folder: Path, process: Identity | None) -> Iterator[Subscription]:
        """Subscribe to a run folder and to the death of a process."""
        number = self._add(folder)
        subscription = Subscription(polling=number is None)
        death = trio.CancelScope()
        if number is not None:
            self._subscribers.setdefault(number, []).append(subscription)
        if process is not None and self._nursery is not None:
            self._nursery.start_soon(_tell_death, process, subscription, death)
        try:
            yield subscription
        finally:
            death.cancel()
            if number is not None:
                self._remove(number, subscription)

    def _add(self, folder: Path) -> int | None:
        if self._inotify is None:
            return None
        flags = inotify_simple.flags
        try:
            mask = flags.MODIFY | flags.MOVED_TO | flags.CREATE | flags.ONLYDIR | flags.DONT_FOLLOW
            return int(self._inotify.add_watch(folder, mask))
        except OSError:
            return None

    def _remove(self, number: int, subscription: Subscription) -> None:
        left = self._subscribers.get(number, [])
        if subscription in left:
            left.remove(subscription)
        if not left and self._subscribers.pop(number, None) is not None and self._inotify is not None:
            try:
                self._inotify.rm_watch(number)
            except OSError as error:
                # The folder, and the watch with it, may be gone already.
                if error.errno != errno.EINVAL:
                    raise

    async def _serve(self, inotify: INotify) -> None:
        flags = inotify_simple.flags
        handle = inotify.fileno()
        while True:
            await trio.lowlevel.wait_readable(handle)
            try:
                events = inotify_simple.parse_events(os.read(handle, 64 * 1024))
            except BlockingIOError:
                continue
            changed = {event.wd for event in events if not event.name or event.name in _FILES}
            if any(event.mask & flags.Q_OVERFLOW for event in events):
                changed = set(self._subscribers)
            for number in changed:
                for subscription in self._subscribers.get(number, ()):
                    subscription.poke()
            await trio.sleep(_GATHER)


def _open_inotify() -> INotify | None:
    inotify = None
    if sys.platform == "linux":
        with suppress(OSError):
            inotify = inotify_simple.INotify(nonblocking=True)
    return inotify


async def _tell_death(process: Identity, subscription: Subscription, scope: trio.CancelScope) -> None:
    with scope:
        await processes.gone(process)
        subscription.poke()


@contextmanager
def polling() -> Iterator[Subscription]:
    """A subscription for want of a watch."""
    yield Subscription(polling=True)
