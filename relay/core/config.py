"""What relay.toml says, as values: one frozen class a section, with the defaults.

Built by `relay.core.config_parse`, read by whoever starts sessions. Knows no provider by name: the names
that exist are an argument.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from attrs import field, frozen

from relay.core.chain import Target, parse_target
from relay.core.policies import ApprovalPolicy, CircuitPolicy, RetryPolicy
from relay.errors import ConfigError, UnknownProviderError

DEFAULT_ACCOUNT = "default"


@frozen(kw_only=True)
class RelaySettings:
    """The `[relay]` section.

    Args:
        chain: providers and accounts in the user's order, as written ("claude", "codex/work"); empty
            means every provider that is found.
        server_port: where the daemon listens on the loopback interface.
        handoff_threshold: fraction of a quota window (0 to 1) at which to hand off before the wall.
        pause_deadline_seconds: how long a running tool call is waited for before a handoff forces.
        heartbeat_seconds: until when a started agent must have shown a sign of life.
        max_handoffs: how often one session may change agents.
        snapshot_max_file_mb: larger files stay out of snapshots.
    """

    chain: tuple[str, ...] = ()
    server_port: int = 4748
    handoff_threshold: float = 0.85
    pause_deadline_seconds: float = 30.0
    heartbeat_seconds: float = 120.0
    max_handoffs: int = 8
    snapshot_max_file_mb: int = 50


@frozen(kw_only=True)
class AccountSettings:
    """A `[providers.<name>.accounts.<label>]` section: one login.

    Args:
        active: the account to begin with.
        config_dir: the CLI's own configuration folder for it, absolute; None means the CLI's default.
        env: additional environment for the child.
    """

    label: str = DEFAULT_ACCOUNT
    active: bool = False
    config_dir: str | None = None
    env: Mapping[str, str] = field(factory=dict, hash=False)


@frozen(kw_only=True)
class ProviderSettings:
    """A `[providers.<name>]` section.

    Args:
        enabled: it may be used at all.
        kind: "acp" for a provider that the configuration adds; "" for one that Relay knows.
        command: the program, by name or absolute path; "" for the provider's own.
        args: additional arguments.
        env: additional environment.
        model: model name, or "" for the CLI's default.
        base_url: API base URL override, or "".
        permission_mode: the CLI's own name of a permission mode, or "" for the one that fits `allow`.
        declared_cap: tokens that may be spent on it, where the provider itself tells no quota.
        accounts: its logins, in the order of the file.
    """

    name: str
    enabled: bool = True
    kind: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict, hash=False)
    model: str = ""
    base_url: str = ""
    permission_mode: str = ""
    declared_cap: int | None = None
    accounts: tuple[AccountSettings, ...] = ()


@frozen(kw_only=True)
class ProfileSettings:
    """A `[profiles.<name>]` section: how one sort of task is worked on.

    Args:
        chain: as in `RelaySettings`; empty means the general one.
        kinds: words for the sort of task ("refactor", "docs").
        skills: skills the agent is told to use.
        context_hint: a text that goes before the task.
    """

    name: str
    chain: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    context_hint: str = ""


@frozen(kw_only=True)
class VisionSettings:
    """The `[vision]` section: asking a model about a screenshot of an agent's window.

    Args:
        api_key_env: name of the environment variable that holds the key.
        poll_ms: milliseconds between two looks.
        window_match: part of the window's title.
    """

    enabled: bool = False
    provider: str = ""
    model: str = ""
    api_key_env: str = ""
    base_url: str = ""
    poll_ms: int = 5000
    window_match: str = ""


@frozen(kw_only=True)
class VerifySettings:
    """The `[verify]` section.

    Args:
        commands: acceptance commands, run by the shell in the session's worktree.
        timeout_seconds: for each of them.
    """

    commands: tuple[str, ...] = ()
    timeout_seconds: float = 900.0


@frozen(kw_only=True)
class ApprovalSettings:
    """The `[approvals]` section.

    Args:
        allow: "ask", "edits" or "all": what an agent does unasked.
        commands: shell commands, as globs, that run unasked when they hold no shell syntax.
        timeout_seconds: a question unanswered for so long is answered with no.
    """

    allow: str = "edits"
    commands: tuple[str, ...] = ()
    timeout_seconds: float = 300.0

    @property
    def policy(self) -> ApprovalPolicy:
        """What `relay.core.approval.judge` takes besides the level."""
        return ApprovalPolicy(commands=self.commands, timeout_seconds=self.timeout_seconds)


@frozen(kw_only=True)
class DetectSettings:
    """The `[detect]` section; of your own relay.toml alone, since the daemon is yours.

    Args:
        ambient: the daemon announces agent sessions that appear on this machine.
        interval_seconds: how often it looks.
    """

    ambient: bool = True
    interval_seconds: float = 30.0


@frozen(kw_only=True)
class GcSettings:
    """The `[gc]` section; of your own relay.toml alone, since the daemon is yours.

    Args:
        enabled: the daemon clears away by itself, once a day.
        keep_days: what ended within so many days is kept.
        output_max_mb: megabytes of the output of ended sessions, in one repository.
    """

    enabled: bool = True
    keep_days: float = 14.0
    output_max_mb: int = 1024


@frozen(kw_only=True)
class PriceSettings:
    """A `[prices.<model>]` section: US dollars per million tokens; None means the built-in price."""

    model: str
    input: float | None = None
    cached_input: float | None = None
    output: float | None = None


@frozen(kw_only=True)
class Config:
    """A whole relay.toml; what it leaves out has its default."""

    relay: RelaySettings = field(factory=RelaySettings)
    providers: tuple[ProviderSettings, ...] = ()
    profiles: tuple[ProfileSettings, ...] = ()
    retry: RetryPolicy = field(factory=RetryPolicy)
    circuit: CircuitPolicy = field(factory=CircuitPolicy)
    vision: VisionSettings = field(factory=VisionSettings)
    verify: VerifySettings = field(factory=VerifySettings)
    approvals: ApprovalSettings = field(factory=ApprovalSettings)
    prices: tuple[PriceSettings, ...] = ()
    detect: DetectSettings = field(factory=DetectSettings)
    gc: GcSettings = field(factory=GcSettings)

    def provider(self, name: str) -> ProviderSettings:
        """The provider's settings; the defaults when it has no section."""
        return next((p for p in self.providers if p.name == name), ProviderSettings(name=name))

    def account(self, target: Target) -> AccountSettings:
        """The settings of one login; the CLI's own default when it has no section."""
        accounts = self.provider(target.provider).accounts
        return next((a for a in accounts if a.label == target.account), AccountSettings(label=target.account))

    @property
    def custom_providers(self) -> tuple[str, ...]:
        """Names of the providers that the configuration adds."""
        return tuple(p.name for p in self.providers if p.kind)

    @property
    def declared_caps(self) -> tuple[tuple[str, int], ...]:
        """Provider and tokens, for every provider with a `declared_cap`."""
        return tuple((p.name, p.declared_cap) for p in self.providers if p.declared_cap is not None)

    def chain_names(self, found: Sequence[str]) -> tuple[str, ...]:
        """The order when the user names none: the configured chain, else every provider found.

        Args:
            found: names of the providers that can be started on this machine. Others are left out, and
                so are the ones that are not enabled.
        """
        names = self.relay.chain or tuple(found)
        return tuple(
            name for name in names if (p := parse_target(name)[0]) in found and self.provider(p).enabled
        )

    def targets(self, names: Sequence[str], known: Sequence[str]) -> tuple[Target, ...]:
        """The logins that a chain means, without duplicates.

        "claude" means all its accounts, the active one first, the others in the order of the file (the
        CLI's own login when none is configured); "claude/work" means that one.

        Args:
            names: as typed or configured.
            known: names of the providers that Relay has; the configuration's own are added.

        Raises:
            UnknownProviderError: no such provider.
            ConfigError: no such account, a provider that is not enabled, or a name of no shape.
        """
        known = tuple(dict.fromkeys((*known, *self.custom_providers)))
        found: dict[Target, None] = {}
        for name in names:
            provider, label = parse_target(name)
            if provider not in known:
                raise UnknownProviderError(
                    f'no provider "{provider}"{did_you_mean(provider, known)}',
                    hint=f"there are: {', '.join(known) or 'none'}",
                )
            settings = self.provider(provider)
            if not settings.enabled:
                raise ConfigError(
                    f"provider {provider} is not enabled (enabled = false in relay.toml)",
                    hint=f"take it out of the chain, or set enabled = true in [providers.{provider}]",
                )
            for account in _labels(settings, label):
                found[Target(provider=provider, account=account)] = None
        return tuple(found)


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """The nearest of the known words as `; did you mean "x"?`, or "" when none is near."""
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""


def _labels(settings: ProviderSettings, label: str | None) -> tuple[str, ...]:
    ordered = sorted(settings.accounts, key=lambda account: not account.active)
    labels = tuple(account.label for account in ordered) or (DEFAULT_ACCOUNT,)
    if label is None:
        return labels
    if label != DEFAULT_ACCOUNT and label not in labels:
        raise ConfigError(
            f'provider {settings.name} has no account "{label}"{did_you_mean(label, labels)}',
            hint=f"its accounts are: {', '.join(labels)};"
            f" add one as [providers.{settings.name}.accounts.{label}] in relay.toml",
        )
    return (label,)
