"""The OpenAPI description, generated from the route table and the request classes."""

from __future__ import annotations

import re
import types
import typing
from typing import Any

import attrs

from relay.api.routing import Route
from relay.core.wire_names import camel
from relay.version import VERSION

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}
_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("code", "message", "hint")},
            "required": ["code", "message", "hint"],
        }
    },
    "required": ["error"],
}


def describe(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The whole description, version 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Relay", "version": VERSION},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR},
        },
        "security": [{"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ] + [
        {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
        for name, text in route.query.items()
    ]
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}_{re.sub(r'[^a-z]+', '_', route.path.lower()).strip('_')}",
        "parameters": parameters,
        "responses": {
            "200": {"description": route.response or "JSON", "content": {"application/json": {}}},
            "default": {"description": "what is wrong, and what to do", "content": error},
        },
    }
    if route.request is not None:
        body = {"application/json": {"schema": schema_of(route.request)}}
        operation["requestBody"] = {"required": True, "content": body}
    if not route.token:
        operation["security"] = []
    return operation


def schema_of(cls: type[Any]) -> dict[str, Any]:
    """JSON schema of a request class."""
    hints = typing.get_type_hints(cls)
    properties = {camel(a.name): _schema(hints[a.name]) for a in attrs.fields(cls)}
    required = [camel(a.name) for a in attrs.fields(cls) if a.default is attrs.NOTHING]
    return {
        "type": "object",
        "description": (cls.__doc__ or "").strip(),
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _schema(hint: Any) -> dict[str, Any]:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin is types.UnionType or origin is typing.Union:
        return {"anyOf": [_schema(argument) for argument in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0])}
    return {}
