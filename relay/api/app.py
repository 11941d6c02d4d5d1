"""The Quart-Trio application: the route table, errors as JSON, the WebSocket."""

from __future__ import annotations

import json
import logging
from typing import Any

import orjson
from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from relay.api import detect, sessions, status
from relay.api.auth import COOKIE
from relay.api.context import ApiContext
from relay.api.openapi import describe
from relay.api.routing import Call, Route
from relay.api.websocket import serve_events
from relay.core.wire import from_request
from relay.errors import ConfigError, InternalError, NotAllowedError, RelayError, UnauthorizedError

log = logging.getLogger("relay.api")

ROUTES: tuple[Route, ...] = (*status.ROUTES, *sessions.ROUTES, *detect.ROUTES)
MAX_BODY = 4 * 1024 * 1024


def create_app(context: ApiContext) -> QuartTrio:
    """The application of one daemon."""
    app = QuartTrio("relay", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.url_map.merge_slashes = False
    description = describe(ROUTES)

    async def openapi(_: ApiContext, call: Call) -> Any:
        return description

    described = Route(method="GET", path="/api/openapi.json", handler=openapi, summary="This description.")
    for route in (*ROUTES, described):
        _add(app, context, route)

    @app.get("/enter")
    async def enter() -> Response:
        """A browser's one-time link: the ticket becomes a cookie."""
        context.gatekeeper.check(request.headers, request.cookies, token_needed=False)
        if not context.gatekeeper.redeem(request.args.get("ticket", "")):
            raise UnauthorizedError("the link was used or is too old", hint="ask for a new one: relay ui")
        response = Response(b"", status=303, headers={"Location": "/api/status"})
        response.set_cookie(COOKIE, context.gatekeeper.token, httponly=True, samesite="Strict", path="/")
        return response

    @app.websocket("/ws")
    async def events() -> None:
        await serve_events(context)

    @app.errorhandler(RelayError)
    async def refused(error: RelayError) -> Response:
        return _error(error)

    @app.errorhandler(HTTPException)
    async def http_error(error: HTTPException) -> Response:
        body = {"code": _code(error.code), "message": error.description or str(error), "hint": ""}
        return _json({"error": body}, status=error.code or 500)

    @app.errorhandler(Exception)
    async def broken(error: Exception) -> Response:
        log.error("a request failed", exc_info=error)
        return _error(InternalError("Relay made a mistake", hint="the daemon's log has more"))

    return app


def _add(app: QuartTrio, context: ApiContext, route: Route) -> None:
    async def view(**path: str) -> Response:
        context.gatekeeper.check(request.headers, request.cookies, token_needed=route.token)
        body = await _body(route) if route.method == "POST" else None
        call = Call(path=path, query=request.args.to_dict(), body=body)
        return _json(await route.handler(context, call))

    rule = route.path.replace("{", "<").replace("}", ">")
    app.add_url_rule(rule, f"{route.method} {route.path}", view, methods=[route.method])


async def _body(route: Route) -> Any:
    if request.mimetype != "application/json":
        raise NotAllowedError(
            f"content type {request.mimetype!r} is not application/json",
            hint="send JSON; a web page's form can't come in",
        )
    data = await request.get_data()
    try:
        values = orjson.loads(data or b"{}")
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"the body is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError("the body is not a JSON object")
    return from_request(values, route.request) if route.request else None


def _json(value: Any, *, status: int = 200) -> Response:
    try:
        data = orjson.dumps(value)
    except orjson.JSONEncodeError:
        data = json.dumps(value, default=str).encode()
    return Response(data, status=status, content_type="application/json")


def _error(error: RelayError) -> Response:
    body = {"code": error.code, "message": error.message, "hint": error.hint}
    return _json({"error": body}, status=error.status)


def _code(status: int | None) -> str:
    return {404: "not_found", 405: "method_not_allowed", 413: "too_large"}.get(status or 0, "bad_request")
