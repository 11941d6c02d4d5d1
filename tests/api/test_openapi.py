"""The description of the API: complete, well-formed, and true to the classes that read the bodies."""

from __future__ import annotations

import re
import types
import typing
from typing import Any

import attrs
import pytest

from relay.api import requests
from relay.api.app import ROUTES
from relay.api.openapi import schema_of
from relay.core.wire import from_request
from relay.core.wire_names import camel
from relay.errors import ConfigError
from tests.fakes.api import Stand

BODIES = [value for value in vars(requests).values() if isinstance(value, type) and attrs.has(value)]
EXAMPLES: dict[str, Any] = {"string": "text", "integer": 3, "number": 0.5, "boolean": True, "null": None}
OTHERS: dict[str, Any] = {"string": 1, "integer": "1", "number": "1", "boolean": "true", "array": "x"}


async def described(api: Stand) -> dict[str, Any]:
    answer = await api.call("GET", "/api/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = await answer.get_json()
    return found


async def test_every_route_is_described(api: Stand) -> None:
    paths = (await described(api))["paths"]
    told = {(method.upper(), path) for path, operations in paths.items() for method in operations}
    assert told == {(route.method, route.path) for route in ROUTES}


async def test_no_two_routes_are_the_same() -> None:
    served = [(route.method, re.sub(r"\{\w+\}", "{}", route.path)) for route in ROUTES]
    assert len(served) == len(set(served))


async def test_the_description_is_well_formed(api: Stand) -> None:
    found = await described(api)
    assert found["openapi"].startswith("3.1")
    assert found["info"]["title"]
    assert found["info"]["version"]
    names = []
    for path, operations in found["paths"].items():
        assert path.startswith("/")
        for method, operation in operations.items():
            names.append(operation["operationId"])
            assert operation["summary"].endswith("?" if "up" in operation["summary"] else ".")
            assert {"200", "default"} <= set(operation["responses"])
            for response in operation["responses"].values():
                assert response["description"]
            placeholders = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
            assert placeholders == re.findall(r"\{(\w+)\}", path)
            assert all(p["required"] for p in operation["parameters"] if p["in"] == "path")
            assert ("requestBody" in operation) == (method == "post")
            assert operation.get("security") == ([] if path == "/api/health" else None)
    assert len(names) == len(set(names))


async def test_references_lead_somewhere(api: Stand) -> None:
    found = await described(api)

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            here = [value["$ref"]] if "$ref" in value else []
            return here + [ref for inner in value.values() for ref in references(inner)]
        return [ref for inner in value for ref in references(inner)] if isinstance(value, list) else []

    for reference in references(found):
        target: Any = found
        for name in reference.removeprefix("#/").split("/"):
            target = target[name]
        assert target


def example(schema: dict[str, Any]) -> Any:
    if "anyOf" in schema:
        return example(schema["anyOf"][0])
    if schema["type"] == "array":
        return [example(schema["items"])]
    return EXAMPLES[schema["type"]]


@pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
def test_a_body_made_by_the_schema_is_read(cls: type[Any]) -> None:
    schema = schema_of(cls)
    assert schema["additionalProperties"] is False
    assert schema["description"]
    full = {name: example(inner) for name, inner in schema["properties"].items()}
    read = from_request(full, cls)
    assert {camel(a.name) for a in attrs.fields(cls)} == set(full)
    for a in attrs.fields(cls):
        value = getattr(read, a.name)
        assert (list(value) if isinstance(value, tuple) else value) == full[camel(a.name)]
    from_request({name: full[name] for name in schema["required"]}, cls)


@pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
def test_a_body_against_the_schema_is_refused(cls: type[Any]) -> None:
    schema = schema_of(cls)
    full = {name: example(inner) for name, inner in schema["properties"].items()}
    for name in schema["required"]:
        with pytest.raises(ConfigError, match=f"{name}$"):
            from_request({k: v for k, v in full.items() if k != name}, cls)
    for name, inner in schema["properties"].items():
        kind = inner.get("type") or inner["anyOf"][0]["type"]
        with pytest.raises(ConfigError, match=rf"\$\.{name}"):
            from_request({**full, name: OTHERS[kind]}, cls)
    with pytest.raises(ConfigError, match="extra fields"):
        from_request({**full, "surprise": 1}, cls)


@pytest.mark.parametrize("cls", BODIES, ids=lambda cls: cls.__name__)
def test_null_is_good_where_the_schema_says_so(cls: type[Any]) -> None:
    schema = schema_of(cls)
    hints = typing.get_type_hints(cls)
    for a in attrs.fields(cls):
        optional = isinstance(hints[a.name], types.UnionType) and type(None) in typing.get_args(hints[a.name])
        said = {"type": "null"} in schema["properties"][camel(a.name)].get("anyOf", [])
        assert optional == said


def test_every_body_class_is_used() -> None:
    assert {route.request for route in ROUTES if route.request} == set(BODIES)
