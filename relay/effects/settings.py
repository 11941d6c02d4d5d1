"""How a target is launched: configuration read anew at every start, and trusted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import trio
from attrs import field, frozen

from relay.core.chain import Target
from relay.core.record import SessionRecord
from relay.effects.world import World
from relay.providers.protocol import Account
from relay.providers.table import provider_names
from relay.store.config_file import load_effective
from relay.store.trust import TrustStore, require


@frozen(kw_only=True)
class LaunchSettings:
    """What relay.toml says of a target. Names as in `providers.protocol.LaunchRequest`."""

    account: Account
    model: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict)
    base_url: str = ""


async def launch_settings(world: World, record: SessionRecord, target: Target) -> LaunchSettings:
    """Read and check them.

    Raises:
        NotTrustedError: the repository's relay.toml names commands and is not trusted.
        ConfigError: it is not as it must be.
    """
    return await trio.to_thread.run_sync(_settings, world, record, target)


def _settings(world: World, record: SessionRecord, target: Target) -> LaunchSettings:
    root = Path(record.repository)
    effective = load_effective(root, world.config_dir, known=provider_names())
    require(effective, root, TrustStore(world.places.trust))
    provider = effective.config.provider(target.provider)
    account = effective.config.account(target)
    return LaunchSettings(
        account=Account(label=account.label, config_dir=account.config_dir, env=account.env),
        model=provider.model,
        command=provider.command,
        args=provider.args,
        env=provider.env,
        base_url=provider.base_url,
    )
