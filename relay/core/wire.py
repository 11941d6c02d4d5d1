"""How values look as JSON: the one converter of the domain.

Used for fsm.json, the audit log, the API and the journal. Names are camelCase on the wire; instants
are ISO 8601 with their zone; fields that hold their default are left out; an event carries its `kind`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.strategies import configure_tagged_union
from cattrs.v import transform_error

from relay.core.chain import Target, parse_target
from relay.core.commands import Answer, Command
from relay.core.events import AgentEvent, Observed, Place
from relay.core.wire_names import camel
from relay.errors import ConfigError

T = TypeVar("T")

EVENT_TYPES: dict[str, type[Any]] = {kind.kind: kind for kind in get_args(AgentEvent)}


def _renames(cls: type[Any]) -> dict[str, Any]:
    return {a.name: override(rename=camel(a.name)) for a in attrs.fields(cls)}


def _make_converter(*, strict: bool) -> Converter:
    converter = Converter(forbid_extra_keys=strict)

    def unstructure(cls: type[Any]) -> Callable[[Any], Any]:
        return make_dict_unstructure_fn(cls, converter, _cattrs_omit_if_default=True, **_renames(cls))

    def structure(cls: type[Any]) -> Callable[[Mapping[str, Any], Any], Any]:
        return make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=strict, **_renames(cls))

    converter.register_unstructure_hook_factory(attrs.has, unstructure)
    converter.register_structure_hook_factory(attrs.has, structure)
    converter.register_unstructure_hook(datetime, lambda value: value.isoformat())
    converter.register_structure_hook(datetime, lambda value, _: _instant(value))
    converter.register_unstructure_hook(bytes, lambda value: b64encode(value).decode())
    converter.register_structure_hook(bytes, lambda value, _: b64decode(value))
    converter.register_unstructure_hook(Target, lambda target: f"{target.provider}/{target.account}")
    converter.register_structure_hook(Target, lambda value, _: _target(value))
    if strict:
        _refuse_other_types(converter)
    return converter


def _refuse_other_types(converter: Converter) -> None:
    """By itself cattrs calls `bool("false")`, and takes a text for a list of its letters."""

    def only(*kinds: type[Any]) -> Callable[[Any, Any], Any]:
        def structure(value: Any, cls: Any) -> Any:
            if type(value) not in kinds:
                raise TypeError(f"{value!r} is no {cls.__name__}")
            return cls(value)

        return structure

    def structure_tuple(value: Any, cls: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise TypeError(f"{value!r} is no list")
        items: Any = list.__class_getitem__(get_args(cls)[0])
        return tuple(converter.structure(value, items))

    converter.register_structure_hook(str, only(str))
    converter.register_structure_hook(bool, only(bool))
    converter.register_structure_hook(int, only(int))
    converter.register_structure_hook(float, only(int, float))
    converter.register_structure_hook_func(_is_tuple, structure_tuple)


def _is_tuple(cls: Any) -> bool:
    return get_origin(cls) is tuple


def _instant(text: str) -> datetime:
    """Without its zone it could be compared with no other."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} names no zone")
    return found


def _target(text: str) -> Target:
    provider, account = parse_target(text)
    return Target(provider=provider, account=account or "default")


def _tell_apart(converter: Converter, union: Any, tag: str) -> None:
    """Values of a union carry the name of their class, an event its kind."""
    configure_tagged_union(
        union, converter, tag_name=tag, tag_generator=lambda cls: getattr(cls, "kind", cls.__name__)
    )


_stored = _make_converter(strict=False)
_tell_apart(_stored, AgentEvent, "kind")
_tell_apart(_stored, Command, "type")
_tell_apart(_stored, Answer, "type")
_requested = _make_converter(strict=True)


def to_wire(value: Any) -> Any:
    """A value as plain JSON values."""
    return _stored.unstructure(value)


def from_wire(data: Any, cls: type[T]) -> T:
    """A stored value back from JSON; unknown keys are passed over.

    Raises:
        ConfigError: names the path and what was expected there.
    """
    return _structure(_stored, data, cls)


def from_request(data: Any, cls: type[T]) -> T:
    """A request's body; unknown keys are refused.

    Raises:
        ConfigError: names the path and what was expected there.
    """
    return _structure(_requested, data, cls)


def _structure(converter: Converter, data: Any, cls: type[T]) -> T:
    if attrs.has(cls) and not isinstance(data, Mapping):
        # cattrs finds no key in a list or a text, and takes every default.
        raise ConfigError(f"not a {cls.__name__}: no object")
    try:
        return converter.structure(data, cls)
    except BaseValidationError as error:
        raise ConfigError("; ".join(map(_camel_path, transform_error(error)))) from error
    except (TypeError, ValueError, KeyError) as error:
        raise ConfigError(f"not a {cls.__name__}: {error}") from error


def _camel_path(problem: str) -> str:
    said, at, path = problem.rpartition(" @ ")
    said = said.replace("expected tuple", "expected list")
    return said + at + re.sub(r"\w+", lambda name: camel(name[0]), path)


def event_to_wire(seen: Observed, target: str) -> dict[str, Any]:
    """An observed event as the data of an `agent_event` entry."""
    event, place = seen.event, seen.place
    data: dict[str, Any] = _stored.unstructure(event, type(event))
    data["kind"] = event.kind
    data["target"] = target
    data["place"] = [place.run, place.stream, place.offset, place.index]
    return data


def event_from_wire(data: Mapping[str, Any], at: datetime) -> Observed | None:
    """An `agent_event` entry's data back as an event; None for a kind this version does not know."""
    cls = EVENT_TYPES.get(str(data.get("kind")))
    place = data.get("place")
    if cls is None or not isinstance(place, list) or len(place) != 4:
        return None
    run, stream, offset, index = place
    event = _structure(_stored, data, cls)
    return Observed(place=Place(run=run, stream=stream, offset=offset, index=index), at=at, event=event)
