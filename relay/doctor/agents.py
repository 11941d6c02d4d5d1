"""Checks of the agents' CLIs: found, of which version, and logged in for every account."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from relay.core.config import AccountSettings, Config, ProviderSettings
from relay.doctor.ask import ask
from relay.doctor.check import Check, error, ok, skipped, warning
from relay.effects.child import environment, resolve
from relay.effects.marker import MARKER
from relay.errors import MissingBinaryError
from relay.providers.protocol import Account, LaunchRequest, Provider
from relay.providers.table import provider_named, provider_names

_NEUTRAL = "/"
"""Where they are asked: in a repository they would read what it says of itself."""


def agents(config: Config, env: Mapping[str, str]) -> Iterator[Check]:
    """All of them, asked side by side.

    Args:
        config: what is in force; nothing of a repository that is not trusted, as its programs are run.
    """
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
    section = f"[providers.{provider.name}]"
    try:
        path = resolve(program, path=env.get("PATH", os.defpath), cwd=_NEUTRAL)
    except MissingBinaryError as failure:
        if settings.command:
            mend = f"mend command in {section}, or take it out"
            yield error(name, failure.message, mend)
        else:
            told = f"{program} is not on the PATH (install it, or name it as command in {section})"
            yield skipped(name, told)
        return
    answer = ask(path, "--version", env=env, cwd=_NEUTRAL)
    version = re.search(r"\d+(?:\.\d+)+", answer.out)
    if answer.status != 0 or version is None:
        yield error(name, f"{path} does not run: {answer.said or 'it says nothing'}", "install it anew")
        return
    told = f"{provider.display_name} {version[0]} ({path})"
    if _numbers(version[0]) < _numbers(provider.tested_version):
        mend = f"update it: Relay is tried with {provider.tested_version}"
        yield warning(name, told, mend)
    else:
        yield ok(name, told)
    accounts = settings.accounts or (AccountSettings(label="default"),)
    with ThreadPoolExecutor() as pool:
        yield from pool.map(lambda account: _login(provider, path, settings, account, env), accounts)


def _login(
    provider: Provider,
    path: str,
    settings: ProviderSettings,
    account: AccountSettings,
    env: Mapping[str, str],
) -> Check:
    name = f"login {provider.name}/{account.label}"
    if not provider.login_args:
        return skipped(name, "can't be asked")
    # Asked as a run of this account would be started: with what it sets, and without what it must not see.
    request = LaunchRequest(
        session_id="",
        run=1,
        cwd=_NEUTRAL,
        prompt="",
        account=Account(label=account.label, config_dir=account.config_dir, env=account.env),
        command=settings.command,
        env=settings.env,
        base_url=settings.base_url,
    )
    own = environment(env, provider.launch(request), marker="", cwd=_NEUTRAL)
    del own[MARKER]
    answer = ask(path, *provider.login_args, env=own, cwd=_NEUTRAL)
    logged_in, said = provider.login_told(answer.status, answer.out, answer.err)
    if logged_in:
        return ok(name, said)
    folder = f" with {provider.config_dir_env}={account.config_dir}" if account.config_dir else ""
    if logged_in is None:
        return warning(name, f"it does not tell whether it is logged in: {said}", "start it by hand once")
    return warning(name, said, f"log in: start `{settings.command or provider.program}`{folder}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
