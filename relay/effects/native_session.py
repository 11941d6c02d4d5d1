"""A provider's own session, brought to where another account can resume it.

The transcript is copied from one account's configuration folder to another's; keys and credentials
never are. What was done, or why it could not be, is always said.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import orjson
import trio
from attrs import frozen

from relay.core import effects
from relay.core.chain import Target
from relay.effects.settings import LaunchSettings, launch_settings
from relay.effects.world import World
from relay.errors import RelayError, UserError
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
    """Copy the session's own files, unless they lie already where the account's CLI looks for them.

    A session that goes on in another folder than it began in has that folder's name exchanged in the copy,
    so that the agent does not reach into the folder it is not meant to touch.
    """
    opening, record = effect.opening, effect.record
    native_id, source = opening.resume_native, opening.resume_from
    before = opening.resume_cwd or record.worktree
    files = provider.resume_files(native_id, before)
    if files is None or (source is None and not opening.resume_home):
        return Brought(done=False, note=f"{provider.display_name} can't resume its own session: brief used")
    if opening.resume_home:
        old = Path(opening.resume_home)
    else:
        theirs = await launch_settings(world, record, source or effect.target)
        old = config_home(world, provider, theirs.account)
    new = config_home(world, provider, settings.account)
    same_home = old.resolve() == new.resolve()
    if same_home and before == record.worktree:
        return Brought(done=True, note=f"resumes the native session {native_id}")
    copying = _Copying(old=old, new=new, files=files, before=before, after=record.worktree)
    try:
        count = await trio.to_thread.run_sync(_copy, provider, copying)
    except (OSError, RelayError) as error:
        return Brought(done=False, note=f"the native session could not be copied ({error}): brief used")
    if count == 0:
        return Brought(done=False, note=f"no files of native session {native_id} in {old}: brief used")
    return Brought(done=True, note=_words(native_id, source, effect.target, count, moved=not same_home))


def _words(native_id: str, source: Target | None, target: Target, count: int, *, moved: bool) -> str:
    where = f"copied from {source or 'its own folder'} to {target}" if moved else "made ready for this folder"
    return f"resumes the native session {native_id}: {count} files {where}"


@frozen(kw_only=True)
class _Copying:
    """From one account's folder to another's, and from one working folder to another."""

    old: Path
    new: Path
    files: ResumeFiles
    before: str
    after: str


def _copy(provider: Provider, copying: _Copying) -> int:
    count = 0
    exchange = exchanger(copying.before, copying.after) if copying.before != copying.after else None
    for pattern in copying.files.globs:
        for path in copying.old.glob(pattern):
            if path.is_symlink() or not path.is_file():
                continue
            if any(fnmatch(path.name, never) for never in copying.files.never):
                continue
            place = path.relative_to(copying.old).as_posix()
            if exchange is not None:
                moved = provider.resume_place(place, copying.after)
                if moved is None:
                    raise UserError(f"{copying.after} is too long a path for {provider.display_name}")
                place = moved
            target = copying.new / place
            count += 1
            if target == path:
                # The CLI finds it by its id alone, and goes on in it.
                continue
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = target.with_name(target.name + ".relay-part")
            try:
                if exchange is None or path.suffix not in (".json", ".jsonl"):
                    shutil.copyfile(path, part, follow_symlinks=False)
                else:
                    _copy_lines(path, part, exchange)
                part.chmod(0o600)
                os.replace(part, target)  # noqa: PTH105
            except BaseException:
                with suppress(OSError):
                    part.unlink()
                raise
    return count


def _copy_lines(source: Path, target: Path, exchange: Callable[[bytes], bytes]) -> None:
    with source.open("rb") as lines, target.open("wb") as file:
        for line in lines:
            file.write(exchange(line))


def exchanger(before: str, after: str) -> Callable[[bytes], bytes]:
    """Exchanges a folder's name in records of JSON, where it stands as a path's beginning.

    What a provider signed (a model's thinking) is left as it is, and so is a line that is no JSON.
    """
    path = re.compile(re.escape(before) + r"(?![\w.-])")
    hint = before.rpartition("/")[2].encode()

    def exchange(line: bytes) -> bytes:
        if hint not in line:
            return line
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            return line
        changed = _exchanged(value, path, after)
        return line if changed is value else orjson.dumps(changed) + (b"\n" if line.endswith(b"\n") else b"")

    return exchange


def _exchanged(value: Any, path: re.Pattern[str], after: str) -> Any:
    if isinstance(value, str):
        return path.sub(lambda _: after, value) if path.search(value) else value
    if isinstance(value, list):
        items = [_exchanged(item, path, after) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if isinstance(value, dict):
        if "signature" in value or "encrypted_content" in value:
            return value
        fields = {name: _exchanged(item, path, after) for name, item in value.items()}
        return value if all(fields[name] is value[name] for name in value) else fields
    return value
