"""What a new session is made of: the request, over relay.toml, over the defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio
from attrs import frozen

from relay.api.context import ApiContext
from relay.api.requests import RunRequest
from relay.core.chain import Target
from relay.core.config import Config
from relay.core.policies import ALLOW_LEVELS
from relay.core.record import Options
from relay.core.routing import profile_for
from relay.core.session import SessionPolicy
from relay.core.wire import to_wire
from relay.errors import ConfigError, MissingBinaryError, NoRepositoryError
from relay.store.config_file import load_effective
from relay.store.repo_root import repository_root
from relay.store.trust import TrustStore, require


@frozen(kw_only=True)
class SessionSettings:
    """Everything the actors need to begin.

    Args:
        policy: a `SessionPolicy` on the wire.
        notes: what the user should know.
    """

    options: Options
    policy: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def folder(cwd: str) -> Path:
    """A folder that a request names.

    Raises:
        ConfigError: it is not an absolute path. NoRepositoryError: there is no such folder.
    """
    path = Path(cwd)
    if "\0" in cwd or not path.is_absolute():
        raise ConfigError(f"cwd {cwd[:200]!r} is not an absolute path")
    if not os.path.isdir(path):  # noqa: PTH112  (Path.is_dir raises for a name that is too long)
        raise NoRepositoryError(f"cwd {cwd[:200]!r} is no folder", hint="name a folder of a git repository")
    return path


async def session_settings(context: ApiContext, body: RunRequest) -> SessionSettings:
    """Settle them.

    Raises:
        ConfigError, UnknownProviderError: what was asked for is not as it must be.
        NotTrustedError: relay.toml names commands and is not trusted.
        MissingBinaryError: none of the chain's agents is installed.
    """
    root = repository_root(folder(body.cwd))
    config = await trio.to_thread.run_sync(_trusted_config, context, root)
    chain, notes = await _chain(context, config, body, root)
    allow = body.allow or config.approvals.allow
    if allow not in ALLOW_LEVELS:
        raise ConfigError(f"allow {allow!r} is none of {', '.join(ALLOW_LEVELS)}")
    threshold = config.relay.handoff_threshold if body.threshold is None else body.threshold
    if not 0 < threshold <= 1:
        raise ConfigError(f"threshold {threshold} is not between 0 and 1")
    handoffs = config.relay.max_handoffs if body.max_handoffs is None else body.max_handoffs
    if handoffs < 0:
        raise ConfigError(f"maxHandoffs {handoffs} is less than 0")
    options = Options(
        goal=body.task.strip(),
        chain=chain,
        allow=allow,
        verify=config.verify.commands if body.verify is None else body.verify,
        verify_timeout=config.verify.timeout_seconds,
        threshold=threshold,
        max_handoffs=handoffs,
        carry=not body.clean,
        in_place=body.in_place,
        model=body.model,
        pause_deadline=config.relay.pause_deadline_seconds,
        heartbeat=config.relay.heartbeat_seconds,
        max_file_mb=config.relay.snapshot_max_file_mb,
        task_id=body.task_id,
    )
    return SessionSettings(options=options, policy=to_wire(policy_of(config)), notes=notes)


def policy_of(config: Config) -> SessionPolicy:
    """The repository's settings that a session follows."""
    caps = tuple((p.name, p.declared_cap) for p in config.providers if p.declared_cap)
    return SessionPolicy(
        retry=config.retry,
        approvals=config.approvals.policy,
        circuit=config.circuit,
        declared_caps=caps,
    )


def _trusted_config(context: ApiContext, root: Path) -> Config:
    effective = load_effective(root, context.config_dir, known=context.provider_names)
    require(effective, root, TrustStore(context.places.trust))
    return effective.config


async def _chain(
    context: ApiContext, config: Config, body: RunRequest, root: Path
) -> tuple[tuple[Target, ...], tuple[str, ...]]:
    known = context.provider_names
    names = body.providers
    notes: tuple[str, ...] = ()
    if not names and body.profile:
        profiles = {profile.name: profile for profile in config.profiles}
        if body.profile not in profiles:
            raise ConfigError(f"no profile {body.profile!r}", hint=f"known: {', '.join(profiles) or 'none'}")
        names = profiles[body.profile].chain
    elif not names and (profile := profile_for(body.task, config.profiles)) and profile.chain:
        names = profile.chain
        notes = (f"profile {profile.name}, by the sort of the task; -p or --profile choose otherwise",)
    found = await context.machine.providers(root)
    here = {view["name"] for view in found if view["installed"] and view["enabled"]}
    by_default = config.relay.chain or tuple(name for name in known if name in here and name != "scripted")
    targets = config.targets(names or by_default, known)
    usable = tuple(t for t in targets if t.provider in here)
    if not usable:
        asked = {target.provider for target in targets} if names else set(known) - {"scripted"}
        programs = ", ".join(view["program"] for view in found if view["name"] in asked)
        raise MissingBinaryError(
            f"none of the agents is installed here ({programs})",
            hint="install one, or name another provider with -p",
        )
    left = sorted({target.provider for target in targets} - {target.provider for target in usable})
    if left:
        notes += (f"not installed here, so left out: {', '.join(left)}",)
    return usable, notes
