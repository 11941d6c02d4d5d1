"""What a configuration could run, or could change about what runs: all that needs the user's trust.

A repository's relay.toml comes from whoever wrote the repository. Used by `relay.store.config_file`, by
`relay trust` and by whatever shows why trust is missing.
"""

from __future__ import annotations

from collections.abc import Mapping

from relay.core.config import Config
from relay.core.config_parse import dotted, escaped
from relay.core.policies import ALLOW_LEVELS


def commands_named(config: Config) -> tuple[str, ...]:
    """Everything of a file that needs trust, one line each, with what does not show made visible.

    That is: acceptance commands; programs, arguments, environments, addresses, kinds and permission modes
    of providers; folders and environments of accounts; commands that agents may run unasked, and "all";
    looking at the screen. Nothing is cut: what is hidden behind a cut would be trusted unseen.
    """
    found = [_line(("verify",), "commands", command) for command in config.verify.commands]
    for provider in config.providers:
        at: tuple[str, ...] = ("providers", provider.name)
        single = ("kind", "command", "base_url", "permission_mode")
        found += [_line(at, key, value) for key in single if (value := getattr(provider, key))]
        if provider.args:
            found.append(f"[{dotted(at)}] args = [{', '.join(_quoted(arg) for arg in provider.args)}]")
        found += _environment(at, provider.env)
        for account in provider.accounts:
            at_account = (*at, "accounts", account.label)
            if account.config_dir:
                found.append(_line(at_account, "config_dir", account.config_dir))
            found += _environment(at_account, account.env)
    if config.approvals.allow == "all":
        found.append(_line(("approvals",), "allow", "all"))
    found += [_line(("approvals",), "commands", command) for command in config.approvals.commands]
    return (*found, *_vision(config))


def loosened(mine: Config, merged: Config) -> tuple[str, ...]:
    """Where a repository's file takes back what the user's own file forbids, one line each.

    Args:
        mine: the user's own configuration.
        merged: the repository's on top of it.
    """
    found = []
    ours, theirs = (ALLOW_LEVELS.index(config.approvals.allow) for config in (mine, merged))
    if theirs > ours and merged.approvals.allow != "all":
        line = _line(("approvals",), "allow", merged.approvals.allow)
        found.append(f'{line} (your own file says "{mine.approvals.allow}")')
    found += [
        f"[{dotted(('providers', p.name))}] enabled = true (your own file says false)"
        for p in merged.providers
        if p.enabled and not mine.provider(p.name).enabled
    ]
    return tuple(found)


def _vision(config: Config) -> list[str]:
    vision, at = config.vision, ("vision",)
    found = [f"[{dotted(at)}] enabled = true"] if vision.enabled else []
    keys = ("provider", "api_key_env", "base_url", "window_match")
    return found + [_line(at, key, value) for key in keys if (value := getattr(vision, key))]


def _environment(at: tuple[str, ...], env: Mapping[str, str]) -> list[str]:
    return [_line((*at, "env"), name, value) for name, value in env.items()]


def _line(at: tuple[str, ...], key: str, value: str) -> str:
    return f"[{dotted(at)}] {key} = {_quoted(value)}"


def _quoted(value: str) -> str:
    return f'"{escaped(value)}"'
