"""The daemon: puts the layers together and serves until it is told to end.

`relay.cli` calls `run`. One daemon a user, by an OS lock; agents outlive it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path

import psutil
import trio
from hypercorn.config import Config as ServerConfig
from hypercorn.trio import serve
from hypercorn.typing import (
    ASGIFramework,
    ASGIReceiveCallable,
    ASGISendCallable,
    ASGISendEvent,
    Scope,
)
from quart_trio import QuartTrio

from relay.actors.facade import Facade
from relay.actors.runtime import Runtime
from relay.api.app import create_app
from relay.api.auth import Gatekeeper
from relay.api.context import ApiContext
from relay.api.idle import Idleness
from relay.api.starting import policy_of
from relay.api.stream import EventStream
from relay.core.config import Config
from relay.core.wire import to_wire
from relay.effects.clock import WallClock
from relay.effects.detect_reader import DetectReader
from relay.effects.discovery import Discovery, Surroundings
from relay.effects.do_journal import next_number
from relay.effects.machine import Machine
from relay.effects.notify import ServiceManager
from relay.effects.port import EffectsPort
from relay.effects.signals import claim_signals
from relay.effects.watch import Watch
from relay.effects.work_reader import GitWork
from relay.effects.world import World
from relay.errors import ConflictError, RelayError
from relay.providers.table import provider_names
from relay.store.atomic import replace
from relay.store.config_file import load_effective
from relay.store.keys import load_or_make_signing_key, load_or_make_token
from relay.store.lock import DaemonLock
from relay.store.places import StatePlaces
from relay.store.repositories import known_repositories
from relay.store.trust import TrustStore, in_force
from relay.store.user_config import user_config_dir

log = logging.getLogger("relay.daemon")

DEFAULT_PORT = 4748
HANDLERS_GRACE = 3.0
STUCK_CLIENT_SECONDS = 15
IDLE_CONNECTION_SECONDS = 60.0
"""Longer than clients keep theirs (httpx: 5 s): else one may ask just when the connection is closed to it."""


def run(port: int | None = None, *, while_busy: bool = False, quiet: bool = False) -> int:
    """Run the daemon in the foreground.

    Args:
        port: TCP port on 127.0.0.1; 0 picks a free one; None for the configured one (4748), or
            any free one if another program holds that and `while_busy` is set.
        while_busy: end by itself when no session is under way for half a minute.
        quiet: do not print where it listens.

    Returns:
        The exit code: 0 after a stop that was asked for.

    Raises:
        ConflictError: a daemon runs already, or the port is taken.
    """
    manager = ServiceManager.take(os.environ)
    places = StatePlaces.locate(os.environ).ensure()
    _log_to(places.log / "daemon.log")
    with DaemonLock.acquire(places.lock, started=WallClock()().isoformat()) as lock:
        try:
            return _run(places, lock, manager, port, while_busy=while_busy, quiet=quiet)
        except Exception as error:
            reason = _lone(error)
            if not isinstance(reason, RelayError):
                log.exception("ends: it failed by a fault of its own: %r", error)
                raise
            # Under a service manager nobody sees what is printed; `relay daemon status` reads the log.
            log.error("not started: %s", reason.message)
            raise reason from reason.__cause__


def _lone(error: Exception) -> Exception:
    """The one error that Trio's nurseries have wrapped; itself when there are several."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _run(
    places: StatePlaces,
    lock: DaemonLock,
    manager: ServiceManager,
    port: int | None,
    *,
    while_busy: bool,
    quiet: bool,
) -> int:
    config_dir = user_config_dir(os.environ)
    own = load_effective(None, config_dir).config
    wanted = own.relay.server_port if port is None else port
    bound = _bind(wanted, any_other=port is None and while_busy)
    try:
        daemon = Daemon(places, own, config_dir, bound, while_busy=while_busy, manager=manager)
        lock.note({"pid": os.getpid(), "port": daemon.port})
        return trio.run(daemon.serve, quiet)
    finally:
        bound.close()
        places.daemon.unlink(missing_ok=True)


class Daemon:
    """One life of the daemon.

    Args:
        places: the user's state folder.
        own: the user's own settings.
        config_dir: folder of the user's own relay.toml.
        bound: the listening socket.
        while_busy: end when nothing is under way.
        manager: the service manager that started it, if one did.
    """

    def __init__(
        self,
        places: StatePlaces,
        own: Config,
        config_dir: Path,
        bound: socket.socket,
        *,
        while_busy: bool,
        manager: ServiceManager | None = None,
    ) -> None:
        self._places = places
        self._config_dir = config_dir
        self._bound = bound
        self._while_busy = while_busy
        self._own = own
        self._manager = manager or ServiceManager()
        self._ends_by = claim_signals()
        self._failure = ""
        self._ending = trio.Event()
        self.port: int = bound.getsockname()[1]
        self._key = load_or_make_signing_key(places.signing_key)
        self._token = load_or_make_token(places.token)
        self._clock = WallClock()
        self._stream = EventStream(floor=next_number(places) - 1)
        self.facade = Facade(self._clock)
        self._idleness = Idleness(self.facade.sessions, self._stream)

    async def serve(self, quiet: bool = True) -> int:
        """Serve until the end."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._signals)
            watch = await nursery.start(Watch().run)
            world = World(
                places=self._places,
                signing_key=self._key,
                clock=self._clock,
                env=dict(os.environ),
                config_dir=self._config_dir,
                publish=self._stream.publish,
                end=self._fail,
                watch=watch,
                discovery=self._discovery(),
            )
            async with trio.open_nursery() as work:
                runtime_tell: list[Callable[[object, object], None]] = []
                port = EffectsPort(world, work, lambda address, report: runtime_tell[0](address, report))
                runtime = Runtime(port.perform, self.facade.deliver)
                runtime_tell.append(runtime.tell)
                self.facade.bind(runtime)
                policies = await trio.to_thread.run_sync(self._policies)
                runtime.begin(
                    self._clock(),
                    policies,
                    ambient_seconds=self._own.detect.interval_seconds if self._own.detect.ambient else 0.0,
                    gc_enabled=self._own.gc.enabled,
                    gc_keep_days=self._own.gc.keep_days,
                    gc_output_max_mb=self._own.gc.output_max_mb,
                )
                await self._http(world, quiet)
                work.cancel_scope.cancel()
            port.close()
            nursery.cancel_scope.cancel()
        if self._failure:
            print(f"error: {self._failure}", file=sys.stderr)  # noqa: T201  (the daemon's last words)
            return 1
        return 0

    async def _http(self, world: World, quiet: bool) -> None:
        app = create_app(self._context(world))
        settings = ServerConfig()
        settings.bind = [f"fd://{os.dup(self._bound.fileno())}"]
        settings.graceful_timeout = HANDLERS_GRACE
        settings.shutdown_timeout = HANDLERS_GRACE
        settings.keep_alive_timeout = IDLE_CONNECTION_SECONDS
        settings.accesslog = None
        settings.errorlog = logging.getLogger("relay.http")
        settings.websocket_max_message_size = 1 << 20
        async with trio.open_nursery() as nursery:
            await nursery.start(self._serve_app, app, settings)
            self._announce(quiet)
            self._manager.tell("READY=1", f"MAINPID={os.getpid()}", f"STATUS=listening on port {self.port}")
            if self._manager.watchdog_seconds:
                nursery.start_soon(self._manager.prove_alive, self.facade.tree, self._ending)
            if self._while_busy:
                nursery.start_soon(self._end_when_idle)
            await self._ending.wait()
            self._manager.tell("STOPPING=1")
            self._stream.end()

    async def _serve_app(
        self,
        app: QuartTrio,
        settings: ServerConfig,
        task_status: trio.TaskStatus[object] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        await serve(
            self._idleness.counting(finishing(app)),
            settings,
            shutdown_trigger=self._ending.wait,
            task_status=task_status,
        )

    def _announce(self, quiet: bool) -> None:
        url = f"http://127.0.0.1:{self.port}"
        facts = {"pid": os.getpid(), "port": self.port, "url": url, "started": self._clock().isoformat()}
        replace(self._places.daemon, json.dumps(facts).encode(), 0o600)
        log.info("listening on %s", url)
        if not quiet:
            print(f"listening on {url}", flush=True)  # noqa: T201  (what a user waits for)

    def _context(self, world: World) -> ApiContext:
        return ApiContext(
            facade=self.facade,
            places=self._places,
            signing_key=self._key,
            stream=self._stream,
            gatekeeper=Gatekeeper(token=self._token, port=self.port),
            clock=self._clock,
            work=GitWork(),
            machine=Machine(world),
            agents=DetectReader(world.discovery or self._discovery(), self._key, self._clock),
            provider_names=provider_names(),
            config_dir=self._config_dir,
            stop=self._ending.set,
        )

    def _discovery(self) -> Discovery:
        around = Surroundings(places=self._places, config_dir=self._config_dir, env=dict(os.environ))
        return Discovery(around, self._clock)

    def _policies(self) -> dict[str, object]:
        """Settings of the repositories whose sessions may be taken up again."""
        policies: dict[str, object] = {}
        for repo in known_repositories(self._places):
            try:
                effective = load_effective(repo.root, self._config_dir, known=provider_names())
                config = in_force(effective, repo.root, TrustStore(self._places.trust))
            except RelayError as error:
                log.warning("%s: %s; its sessions go on with the defaults", repo.root, error.message)
                continue
            policies[str(repo.root)] = to_wire(policy_of(config))
        return policies

    async def _signals(self) -> None:
        with trio.open_signal_receiver(*self._ends_by) as received:
            async for number in received:
                log.info("ends by %s", signal.Signals(number).name)
                self._ending.set()

    async def _end_when_idle(self) -> None:
        await self._idleness.wait(self._ending)
        if not self._ending.is_set():
            log.info("nothing is under way")
            self._ending.set()

    def _fail(self, reason: str) -> None:
        self._failure = reason
        log.error("ends: %s", reason)
        self._ending.set()


def finishing(app: QuartTrio) -> ASGIFramework:
    """The application, whose answers are sent to their end.

    With quart-trio 0.12 on hypercorn 0.18, the end of a body cancels the task that sends it before hypercorn
    knows that the connection is idle; an idle connection is then never closed, and holds up the daemon's end.
    """

    async def asgi(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        async def send_all(message: ASGISendEvent) -> None:
            with trio.CancelScope(shield=scope["type"] == "http"):
                await send(message)

        await app(scope, receive, send_all)

    return asgi


def _bind(port: int, *, any_other: bool) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(("127.0.0.1", port))
    except OSError as error:
        if any_other:
            bound.bind(("127.0.0.1", 0))
        else:
            bound.close()
            raise ConflictError(
                f"port {port} of 127.0.0.1 cannot be had: {_holder(port) or error.strerror}",
                hint="choose another: relay daemon --port N, or server_port in relay.toml",
            ) from error
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Inherited by every connection: a client that reads nothing must not hold up the daemon's end.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK_CLIENT_SECONDS * 1000)
    bound.listen(256)
    return bound


def _holder(port: int) -> str:
    """Who listens on the port, if that can be told."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
                name = psutil.Process(connection.pid).name() if connection.pid else "another user's program"
                return f"{name} (pid {connection.pid}) listens there"
    except psutil.Error:
        return ""
    return ""


def _log_to(path: Path) -> None:
    handler = RotatingFileHandler(path, maxBytes=2_000_000, backupCount=3, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("hypercorn").setLevel(logging.WARNING)
