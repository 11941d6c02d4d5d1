"""From a TOML document, as read, to a `Config`; every mistake of the file in one error.

Pure: the caller reads the file, and hands in how a key's line is found. Used by
`relay.store.config_file` and by whoever edits the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time
from typing import Any

from attrs import define, evolve, field, fields_dict

from relay.core.config import AccountSettings, Config, ProviderSettings, did_you_mean
from relay.core.config_checks import Wrong, expand_home
from relay.core.config_keys import ACCOUNT, PROVIDER, SECTIONS, TOP, Key, Section
from relay.errors import ConfigError

Path = tuple[str, ...]
LineOf = Callable[[Path], int | None]

MOST_PROBLEMS = 50
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HINT = (
    "docs/configuration.md lists every key; `relay init` in an empty folder writes a file that shows them all"
)


def parse(
    document: Mapping[str, Any],
    *,
    file: str,
    line_of: LineOf,
    known: Sequence[str] | None = None,
    home: str = "",
) -> Config:
    """Build the configuration.

    Args:
        document: the whole file, as tomllib reads it.
        file: its name, for the messages.
        line_of: the line (from 1) of the key or section at a path, None when that is not known.
        known: names of the providers there are; a section of another one must then say its kind. None
            leaves that unchecked.
        home: the user's home folder, which a leading ~ of a path becomes; "" leaves it as it is.

    Raises:
        ConfigError: unknown keys or sections, wrong types, values out of range: all of them, one on a
            line, each with file, line, section, key and value.
    """
    reading = _Reading(file=file, line_of=line_of, known=known, home=home)
    config = reading.config(document)
    if reading.problems:
        raise ConfigError(_listed(reading.problems), hint=_HINT)
    return config


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """One document of two valid ones: what `over` says holds, table by table and key by key.

    Lists are replaced as a whole. An account that `over` makes active takes the place of the active one.
    """
    merged = _merge(under, over)
    for name, settings in over.get("providers", {}).items():
        accounts = settings.get("accounts", {})
        if any(account.get("active") for account in accounts.values()):
            for label, account in merged["providers"][name]["accounts"].items():
                account["active"] = bool(accounts.get(label, {}).get("active", False))
    return merged


def dotted(path: Path) -> str:
    """The path as it is written in TOML."""
    return ".".join(part if _BARE.fullmatch(part) else f'"{escaped(part)}"' for part in path)


def escaped(value: str) -> str:
    """The text with everything that does not show made visible, on one line."""
    return "".join(c if c.isprintable() and c not in '"\\' else _escape(c) for c in value)


@define(kw_only=True)
class _Reading:
    file: str
    line_of: LineOf
    known: Sequence[str] | None
    home: str
    problems: list[tuple[int, str]] = field(factory=list)

    def config(self, document: Mapping[str, Any]) -> Config:
        values: dict[str, Any] = {}
        for name, table in document.items():
            section = TOP.get(name)
            if section is None:
                self._unknown_section(name, table)
            elif not isinstance(table, Mapping):
                self._no_table((name,), table)
            elif section.name_check is None:
                values[name] = self._build(section, (name,), table)
            else:
                built = (self._named(section, (name, item), table[item]) for item in table)
                values[name] = tuple(one for one in built if one is not None)
        return Config(**values)

    def _named(self, section: Section, path: Path, table: Any) -> Any:
        if not isinstance(table, Mapping):
            return self._no_table(path, table)
        wrong = section.name_check(path[-1]) if section.name_check else None
        if isinstance(wrong, Wrong):
            return self._note(path, f'section [{dotted(path)}]: "{escaped(path[-1])}" {wrong.why}')
        if section is not PROVIDER:
            return self._build(section, path, table)
        settings: ProviderSettings = self._build(section, path, table)
        settings = evolve(settings, accounts=self._accounts(path, table.get("accounts", {})))
        self._check_provider(path, settings)
        return settings

    def _accounts(self, path: Path, tables: Any) -> tuple[AccountSettings, ...]:
        path = (*path, "accounts")
        if not isinstance(tables, Mapping):
            self._no_table(path, tables)
            return ()
        found = [self._named(ACCOUNT, (*path, label), tables[label]) for label in tables]
        accounts = tuple(account for account in found if account is not None)
        active = [account.label for account in accounts if account.active]
        if len(active) > 1:
            self._note(
                (*path, active[1], "active"),
                f"[{dotted((*path, active[1]))}] active = true: only one account of a provider can be active,"
                f" and {active[0]} is already",
            )
        return accounts

    def _check_provider(self, path: Path, settings: ProviderSettings) -> None:
        if settings.kind and not settings.command:
            self._note(
                (*path, "kind"),
                f'[{dotted(path)}] kind = "{settings.kind}": needs "command", the program that speaks it',
            )
        if not settings.kind and self.known is not None and settings.name not in self.known:
            self._note(
                path,
                f"[{dotted(path)}] no provider {settings.name}{did_you_mean(settings.name, self.known)}"
                f' (there are: {", ".join(self.known)}; your own needs kind = "acp" and a command)',
            )

    def _build(self, section: Section, path: Path, table: Mapping[str, Any]) -> Any:
        keys = {key.name: key for key in section.keys}
        kept = fields_dict(section.builds)
        values: dict[str, Any] = {}
        if section.name_check is not None:
            values[section.name_field] = path[-1]
        for name, value in table.items():
            key = keys.get(name)
            if key is None:
                if not (section is PROVIDER and name == "accounts"):
                    self._unknown_key(section, path, name, value)
                continue
            checked = key.check(value)
            if isinstance(checked, Wrong):
                self._wrong(path, key, value, checked)
            elif name in kept:
                values[name] = self._expanded(name, checked)
        return section.builds(**values)

    def _expanded(self, name: str, value: Any) -> Any:
        if name == "config_dir":
            return expand_home(value, self.home) or None
        return expand_home(value, self.home) if name == "command" else value

    def _wrong(self, path: Path, key: Key, value: Any, wrong: Wrong) -> None:
        shown = "" if key.secret else f" = {_shown(wrong.part if wrong.at else value)}"
        where = f"{key.name}{escaped(wrong.at)}"
        self._note((*path, key.name), f"[{dotted(path)}] {where}{shown}: {wrong.why}")

    def _unknown_key(self, section: Section, path: Path, name: str, value: Any) -> None:
        names = [key.name for key in section.keys] + (["accounts"] if section is PROVIDER else [])
        near = did_you_mean(name, names)
        elsewhere = [f"[{_title(s)}]" for s in SECTIONS if name in {key.name for key in s.keys}]
        if elsewhere and len(elsewhere) < 3:
            near = f"; it belongs in {' or '.join(elsewhere)}"
        elif isinstance(value, Mapping) and section.name_check is not None:
            near = f'; a name with a dot in it is written in quotes: [{path[0]}."{path[-1]}.{escaped(name)}"]'
        rest = near or f"; the keys here are {', '.join(names)}"
        self._note((*path, name), f'[{dotted(path)}] unknown key "{escaped(name)}"{rest}')

    def _unknown_section(self, name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            near = did_you_mean(name, list(TOP)).replace('"', "[", 1).replace('"', "]", 1)
            rest = near or f"; there are {', '.join(f'[{top}]' for top in TOP)}"
            self._note((name,), f"unknown section [{dotted((name,))}]{rest}")
            return
        homes = [f"[{_title(s)}]" for s in SECTIONS if name in {key.name for key in s.keys}]
        every = [key.name for section in SECTIONS for key in section.keys]
        rest = f"; it belongs in {' or '.join(homes)}" if homes else did_you_mean(name, every)
        self._note((name,), f'unknown key "{escaped(name)}" outside of any section{rest}')

    def _no_table(self, path: Path, value: Any) -> None:
        kind = "a list" if isinstance(value, list) else _shown(value)
        self._note(path, f"{dotted(path)} is {kind}: must be a section, written [{dotted(path)}]")

    def _note(self, path: Path, what: str) -> None:
        line = self.line_of(path)
        place = f"{self.file}:{line}" if line else self.file
        self.problems.append((line or 0, f"{place}: {what}"))


def _listed(problems: list[tuple[int, str]]) -> str:
    ordered = [what for _, what in sorted(problems, key=lambda problem: problem[0])]
    rest = len(ordered) - MOST_PROBLEMS
    return "\n".join(ordered[:MOST_PROBLEMS] + ([f"and {rest} more"] if rest > 0 else []))


def _title(section: Section) -> str:
    if section.name_check is None:
        return section.path[0]
    return "providers.NAME.accounts.LABEL" if section is ACCOUNT else f"{section.path[0]}.NAME"


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = {
        name: _merge(value, {}) if isinstance(value, Mapping) else value for name, value in under.items()
    }
    for name, value in over.items():
        below = merged.get(name)
        if isinstance(value, Mapping):
            merged[name] = _merge(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[name] = value
    return merged


def _shown(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{escaped(value if len(value) <= 60 else value[:59] + "…")}"'
        case Mapping():
            return "a table"
        case list():
            return "a list"
        case date() | time():
            return value.isoformat()
        case int() if abs(value) >= 10**30:
            return "a very large number"
    return f"{value}"


def _escape(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    code = ord(char)
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return named.get(char) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")
