"""Checks of the agents' CLIs: found, of which version, and logged in for every account."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from relay.core.config import AccountSettings, Config
from relay.doctor.check import Check, error, ok, skipped, warning
from relay.providers.protocol import Provider
from relay.providers.table import provider_named, provider_names

SECONDS = 20.0


def agents(config: Config, env: Mapping[str, str]) -> Iterator[Check]:
    """All of them, asked side by side."""
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda name: list(_agent(provider_named(name), config, env)), provider_names())
        checks = [check for each in found for check in each]
    yield from checks
    if all(check.status == "skipped" for check in checks):
        yield error("agents", "no coding agent was found", "install one, such as Claude Code or Codex")
    elif not any(check.status == "ok" and check.name.startswith("login ") for check in checks):
        yield error("agents", "none of the agents is known to be logged in", "log in to one of them")


def _agent(provider: Provider, config: Config, env: Mapping[str, str]) -> Iterator[Check]:
    if not provider.tested_version:
        return
    name = f"agent {provider.name}"
    settings = config.provider(provider.name)
    if not settings.enabled:
        yield skipped(name, "not enabled in relay.toml")
        return
    program = settings.command or provider.program
    path = shutil.which(program, path=env.get("PATH"))
    if path is None:
        mend = f"install it, or name it as command in [providers.{provider.name}]"
        yield skipped(name, f"{program} is not on the PATH ({mend})")
        return
    status, out, err = _ask(path, ("--version",), env)
    version = re.search(r"\d+(?:\.\d+)+", out)
    if status != 0 or version is None:
        yield error(name, f"{path} does not run: {(err or out).strip()[:200]}", "install it anew")
        return
    told = f"{provider.display_name} {version[0]} ({path})"
    if _numbers(version[0]) < _numbers(provider.tested_version):
        mend = f"update it: Relay is tried with {provider.tested_version}"
        yield warning(name, told, mend)
    else:
        yield ok(name, told)
    for account in settings.accounts or (AccountSettings(label="default"),):
        yield _login(provider, path, account, {**env, **settings.env})


def _login(provider: Provider, path: str, account: AccountSettings, env: Mapping[str, str]) -> Check:
    name = f"login {provider.name}/{account.label}"
    if not provider.login_args:
        return skipped(name, "can't be asked")
    own = {**env, **account.env}
    if account.config_dir:
        own[provider.config_dir_env] = account.config_dir
    logged_in, said = provider.login_told(*_ask(path, provider.login_args, own))
    if logged_in:
        return ok(name, said)
    if logged_in is None:
        return warning(name, f"it does not tell whether it is logged in: {said}", "start it by hand once")
    return warning(name, said, f"log in with `{provider.program}` in this account's folder")


def _ask(path: str, words: tuple[str, ...], env: Mapping[str, str]) -> tuple[int, str, str]:
    try:
        done = subprocess.run(
            [path, *words],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, "", f"no answer in {SECONDS:.0f} s"
    except OSError as failure:
        return -1, "", str(failure)
    return done.returncode, done.stdout, done.stderr


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
