"""A provider's own session, brought to where another account can resume it.

The transcript is copied from one account's configuration folder to another's; keys and credentials
never are. What was done, or why it could not be, is always said.
"""

from __future__ import annotations

import os
import shutil
from fnmatch import fnmatch
from pathlib import Path

import trio
from attrs import frozen

from relay.core import effects
from relay.core.chain import Target
from relay.effects.settings import LaunchSettings, launch_settings
from relay.effects.world import World
from relay.errors import RelayError
from relay.providers.protocol import Account, Provider, ResumeFiles


@frozen(kw_only=True)
class Brought:
    """Whether the native session can be resumed by the new account, and the words for the user."""

    done: bool
    note: str


def config_home(world: World, provider: Provider, account: Account) -> Path:
    """The configuration folder that an account's CLI uses."""
    if account.config_dir:
        return Path(account.config_dir).expanduser()
    named = account.env.get(provider.config_dir_env) or world.env.get(provider.config_dir_env, "")
    if named:
        return Path(named)
    return Path(world.env.get("HOME", "~")).expanduser() / provider.default_config_dir


async def bring(
    world: World, effect: effects.StartChild, provider: Provider, settings: LaunchSettings
) -> Brought:
    """Copy the session's own files, unless both accounts share a folder."""
    native_id = effect.opening.resume_native
    source = effect.opening.resume_from
    files = provider.resume_files(native_id, effect.record.worktree)
    if files is None or source is None:
        return Brought(done=False, note=f"{provider.display_name} can't resume its own session: brief used")
    theirs = await launch_settings(world, effect.record, source)
    old = config_home(world, provider, theirs.account)
    new = config_home(world, provider, settings.account)
    if old.resolve() == new.resolve():
        return Brought(done=True, note=f"resumes the native session {native_id}")
    try:
        count = await trio.to_thread.run_sync(_copy, old, new, files)
    except (OSError, RelayError) as error:
        return Brought(done=False, note=f"the native session could not be copied ({error}): brief used")
    if count == 0:
        return Brought(done=False, note=f"no files of native session {native_id} in {old}: brief used")
    return Brought(done=True, note=_words(native_id, source, effect.target, count))


def _words(native_id: str, source: Target, target: Target, count: int) -> str:
    return f"resumes the native session {native_id}: {count} files copied from {source} to {target}"


def _copy(old: Path, new: Path, files: ResumeFiles) -> int:
    count = 0
    for pattern in files.globs:
        for path in old.glob(pattern):
            relative = path.relative_to(old)
            if path.is_symlink() or not path.is_file():
                continue
            if any(fnmatch(path.name, never) for never in files.never):
                continue
            target = new / relative
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = target.with_name(target.name + ".relay-part")
            shutil.copyfile(path, part, follow_symlinks=False)
            part.chmod(0o600)
            os.replace(part, target)  # noqa: PTH105
            count += 1
    return count
