"""Talks with the daemon: finds it, says who we are, turns its refusals back into `relay.errors`.

Used by every command that needs the daemon. Blocking on purpose: a command has nothing else to do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx2
from attrs import frozen

from relay import errors
from relay.cli.base import Settings
from relay.store.lock_holder import lock_holder
from relay.store.places import StatePlaces

HEALTH_SECONDS = 3.0
ANSWER_SECONDS = 60.0
BEGIN_SECONDS = 150.0
"""Beginning a session prepares a worktree, which can take a while in a large repository."""

TREE_SECONDS = 930.0
"""Changing a whole checkout of a hundred thousand files takes minutes; the daemon waits as long."""

_NO_DAEMON_HINT = '`relay run "the task"` and `relay daemon start` start one'
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_BY_STATUS: dict[int, type[errors.RelayError]] = {
    400: errors.UserError,
    401: errors.NotAllowedError,
    403: errors.NotAllowedError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    422: errors.IntegrityError,
    502: errors.ProviderError,
    504: errors.TimedOutError,
}


@frozen(kw_only=True)
class Where:
    """A daemon's address.

    Args:
        url: "http://127.0.0.1:4748".
        token: what to send, or "".
        version: what it said it is, or "".
    """

    url: str
    token: str = ""
    version: str = ""


class Client:
    """Requests to one daemon. Every method raises `RelayError`s: the daemon's own, and these:

    NoDaemonError: nothing was sent, since nobody answers there.
    TimedOutError: it was sent, and no answer came.
    """

    def __init__(self, where: Where) -> None:
        self.where = where
        headers = {"Authorization": f"Bearer {where.token}"} if where.token else {}
        # A proxy of the environment is not asked for what runs on this machine.
        self._http = httpx2.Client(
            base_url=where.url,
            headers=headers,
            timeout=ANSWER_SECONDS,
            trust_env=not is_loopback(where.url),
            # Certificates take a while to load, and plain HTTP (this machine) has none to check.
            verify=not where.url.startswith("http://"),
            follow_redirects=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def get(self, path: str, **query: str) -> Any:
        """GET, with the query's values that are not empty."""
        return self._ask("GET", path, params={name: value for name, value in query.items() if value})

    def post(self, path: str, body: Mapping[str, Any] | None = None, *, seconds: float | None = None) -> Any:
        """POST a JSON object, waiting for `seconds` at the most."""
        return self._ask("POST", path, json=dict(body or {}), timeout=seconds or ANSWER_SECONDS)

    def _ask(self, method: str, path: str, **more: Any) -> Any:
        try:
            response = self._http.request(method, path, **more)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise errors.NoDaemonError(
                f"no daemon answers at {self.where.url}", hint=_NO_DAEMON_HINT
            ) from error
        except httpx2.TimeoutException as error:
            raise errors.TimedOutError(
                f"the daemon at {self.where.url} did not answer {method} {path} in time",
                hint="`relay status` tells whether it was done",
            ) from error
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise errors.ConfigError(f"{self.where.url!r} is no address of a daemon: {error}") from error
        except httpx2.HTTPError as error:
            raise errors.TimedOutError(
                f"the daemon at {self.where.url} went away: {error}",
                hint="`relay daemon status` tells whether it runs; agents go on without it",
            ) from error
        return _content(response)


def is_loopback(url: str) -> bool:
    """The address is this machine's."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in _LOOPBACK


def segment(text: str) -> str:
    """A text as one part of a path, whatever is in it."""
    return quote(text, safe="")


def find(settings: Settings, env: Mapping[str, str] | None = None) -> Where:
    """The daemon that is meant: by option, by the environment, or the user's own.

    Raises:
        NoDaemonError: none runs, or what answers there is no daemon of Relay's.
        NotAllowedError: an address on another machine, and no token for it.
        ConfigError: what was named is no address, or RELAY_STATE_DIR no absolute path.
    """
    variables = os.environ if env is None else env
    places = StatePlaces.locate(variables)
    url = _checked(_named(settings, variables))
    if not url:
        url = _recorded(places)
        if not url:
            raise errors.NoDaemonError("no daemon is running", hint=_NO_DAEMON_HINT)
    token = settings.token or variables.get("RELAY_TOKEN", "")
    if not token:
        if not is_loopback(url):
            # The file's token is for this machine alone and is not told to any other.
            raise errors.NotAllowedError(
                f"{url} is on another machine and needs a token of its own", hint="use --token or RELAY_TOKEN"
            )
        token = _own_token(places)
    with Client(Where(url=url)) as client:
        version = _health(client, places)
    return Where(url=url, token=token, version=version)


def connect(settings: Settings) -> Client:
    """A client of the daemon that is meant. Raises as `find`."""
    return Client(find(settings))


def is_named(settings: Settings, env: Mapping[str, str] | None = None) -> bool:
    """The user said which daemon is meant."""
    return bool(_named(settings, os.environ if env is None else env))


def _named(settings: Settings, env: Mapping[str, str]) -> str:
    if settings.url:
        return settings.url.rstrip("/")
    if settings.host or settings.port is not None:
        host = settings.host or "127.0.0.1"
        bracketed = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return f"http://{bracketed}:{settings.port or 4748}"
    return env.get("RELAY_URL", "").rstrip("/")


def _checked(url: str) -> str:
    problem = errors.ConfigError(f"{url!r} is no address of a daemon", hint="like http://127.0.0.1:4748")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise problem from error
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise problem
    return url


def recorded_pid(places: StatePlaces) -> int:
    """The pid in daemon.json, 0 when there is none."""
    pid = _facts(places).get("pid")
    return pid if isinstance(pid, int) else 0


def end_by_hand(pid: int) -> str:
    """What to do about a daemon that runs and does not answer."""
    return (
        f"pid {pid} is busy or hangs: wait, or end it with `kill -9 {pid}`; nothing is lost by that,"
        " agents go on, and the next daemon follows them"
    )


def _recorded(places: StatePlaces) -> str:
    """The address in daemon.json, "" when there is none. Only this machine's: the token goes there."""
    url = _facts(places).get("url")
    return url if isinstance(url, str) and is_loopback(url) else ""


def _facts(places: StatePlaces) -> Mapping[str, Any]:
    try:
        facts = json.loads(places.daemon.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    except OSError as error:
        raise errors.StoreError(f"cannot read {places.daemon}: {error.strerror}") from error
    return facts if isinstance(facts, dict) else {}


def _own_token(places: StatePlaces) -> str:
    try:
        return places.token.read_text().strip()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise errors.NotAllowedError(f"cannot read the token in {places.token}: {error}") from error


def _health(client: Client, places: StatePlaces) -> str:
    """The daemon's version. Raises NoDaemonError when what answers is something else."""
    problem = errors.NoDaemonError(
        f"what answers at {client.where.url} is no daemon of Relay's", hint=_NO_DAEMON_HINT
    )
    try:
        answer = client._ask("GET", "/api/health", timeout=HEALTH_SECONDS)
    except errors.TimedOutError as error:
        pid = recorded_pid(places)
        hint = f"{places.daemon} names pid {pid}; its log is in {places.log}"
        if pid and pid == lock_holder(places.lock) and client.where.url == _recorded(places):
            hint = f"{end_by_hand(pid)}\nits log is in {places.log}"
        raise errors.NoDaemonError(f"the daemon at {client.where.url} does not answer", hint=hint) from error
    except (errors.NoDaemonError, errors.ConfigError):
        raise
    except errors.RelayError as error:
        raise problem from error
    if not isinstance(answer, dict) or answer.get("ok") is not True or "version" not in answer:
        raise problem
    return str(answer["version"])


def _content(response: httpx2.Response) -> Any:
    try:
        value = response.json()
    except ValueError as error:
        raise errors.NoDaemonError(
            f"{response.request.url} answered {response.status_code} without JSON: no daemon of Relay's",
            hint=_NO_DAEMON_HINT,
        ) from error
    if response.status_code < 400:
        return value
    told = value.get("error") if isinstance(value, dict) else None
    if not isinstance(told, dict):
        told = {}
    kind = errors.BY_CODE.get(
        str(told.get("code")), _BY_STATUS.get(response.status_code, errors.InternalError)
    )
    message = str(told.get("message") or f"the daemon answered {response.status_code}")
    raise kind(message, hint=str(told.get("hint") or ""))
