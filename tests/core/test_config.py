from __future__ import annotations

import pickle
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.chain import Target
from relay.core.config import AccountSettings, Config, ProviderSettings, RelaySettings
from relay.core.config_keys import SECTIONS, TOP, Key, Section
from relay.core.config_parse import merge, parse
from relay.core.config_risks import commands_named, loosened
from relay.errors import ConfigError, RelayError, UnknownProviderError

KNOWN = ("claude", "codex", "gemini")
DOC = Path(__file__).parents[2] / "docs" / "configuration.md"


def config(text: str, **options: Any) -> Config:
    return parse(tomllib.loads(text), file="relay.toml", line_of=lambda _: 7, **options)


def complaint(text: str, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        config(text, **options)
    return caught.value.message


def test_an_empty_file_says_the_defaults() -> None:
    assert config("") == Config()
    assert Config().relay == RelaySettings(
        chain=(), server_port=4748, handoff_threshold=0.85, pause_deadline_seconds=30, heartbeat_seconds=120,
        max_handoffs=8, snapshot_max_file_mb=50,
    )  # fmt: skip
    assert (Config().approvals.allow, Config().approvals.timeout_seconds) == ("edits", 300)
    assert Config().provider("codex") == ProviderSettings(name="codex", enabled=True)


def test_a_whole_file_is_read() -> None:
    got = config(
        """
        [relay]
        chain = ["claude", " codex/work "]
        handoff_threshold = 1
        [providers.claude]
        model = "opus[1m]"
        declared_cap = 1_000
        args = ["--verbose", ""]
        env = { A_B = "" }
        base_url = "http://127.0.0.1:8080/v1"
        [providers.claude.accounts.work]
        active = true
        config_dir = "~/claude-work"
        [providers."mine"]
        kind = "acp"
        command = "~/bin/mine"
        [profiles.docs]
        kinds = ["docs"]
        context_hint = '''two
        lines'''
        [retry]
        prefer = "wait"
        backoff_seconds = 2
        [circuit]
        failures = 5
        half_open_probes = 1
        [verify]
        commands = ["make test"]
        timeout_seconds = 60
        [approvals]
        allow = "ask"
        commands = ["git status*"]
        timeout_seconds = 10
        [prices."gpt-5.2"]
        input = 1.25
        """,
        known=KNOWN,
        home="/home/me",
    )
    claude = got.provider("claude")
    assert got.relay.chain == ("claude", "codex/work")
    assert got.relay.handoff_threshold == 1.0
    assert (claude.model, claude.declared_cap, claude.args) == ("opus[1m]", 1000, ("--verbose", ""))
    assert claude.env == {"A_B": ""}
    assert claude.accounts == (AccountSettings(label="work", active=True, config_dir="/home/me/claude-work"),)
    assert got.provider("mine").command == "/home/me/bin/mine"
    assert got.custom_providers == ("mine",)
    assert got.declared_caps == (("claude", 1000),)
    assert got.profiles[0].context_hint.startswith("two\n")
    assert (got.retry.prefer, got.retry.backoff_seconds, got.circuit.failures) == ("wait", 2, 5)
    assert got.verify.commands == ("make test",)
    assert got.approvals.policy.commands == ("git status*",)
    assert got.approvals.policy.timeout_seconds == 10
    assert (got.prices[0].model, got.prices[0].input, got.prices[0].output) == ("gpt-5.2", 1.25, None)
    assert pickle.loads(pickle.dumps(got)) == got
    assert isinstance(hash(got), int)


WRONG = {
    "an unknown key, and the nearest one": (
        "[relay]\nhandof_threshold = 0.5",
        'relay.toml:7: [relay] unknown key "handof_threshold"; did you mean "handoff_threshold"?',
    ),
    "an unknown key in a named section": (
        '[providers.codex.accounts.work]\nconfigdir = "/x"',
        '[providers.codex.accounts.work] unknown key "configdir"; did you mean "config_dir"?',
    ),
    "an unknown key that is near to none": (
        "[circuit]\nzzz = 1",
        '[circuit] unknown key "zzz"; the keys here are failures, open_seconds, half_open_probes',
    ),
    "a key in the wrong section": (
        "[retry]\nmax_handoffs = 1",
        '[retry] unknown key "max_handoffs"; it belongs in [relay]',
    ),
    "a key before any section": (
        "server_port = 1",
        'unknown key "server_port" outside of any section; it belongs in [relay]',
    ),
    "an unknown section": (
        "[relai]\nserver_port = 1",
        "unknown section [relai]; did you mean [relay]?",
    ),
    "a value where a section belongs": ("relay = 5", "relay is 5: must be a section, written [relay]"),
    "a section that is written as a list": (
        "[[verify]]",
        "verify is a list: must be a section, written [verify]",
    ),
    "a text for a number": (
        '[relay]\nserver_port = "4748"',
        '[relay] server_port = "4748": must be a whole number from 1 to 65535',
    ),
    "true for a number": (
        "[relay]\nmax_handoffs = true",
        "max_handoffs = true: must be a whole number from 0",
    ),
    "a fraction for a whole number": (
        "[relay]\nserver_port = 80.5",
        "server_port = 80.5: must be a whole number",
    ),
    "a port beyond the last": ("[relay]\nserver_port = 65536", "server_port = 65536: must be a whole number"),
    "a percentage for a fraction": (
        "[relay]\nhandoff_threshold = 85",
        "handoff_threshold = 85: must be a number from 0.05 to 1",
    ),
    "no number at all": ("[verify]\ntimeout_seconds = nan", "timeout_seconds = nan: must be a number"),
    "an endless time": ("[verify]\ntimeout_seconds = inf", "timeout_seconds = inf: must be a number"),
    "a number for true or false": ("[retry]\nenabled = 1", "enabled = 1: must be true or false"),
    "a word that is no choice": (
        '[approvals]\nallow = "everything"',
        'allow = "everything": must be "ask", "edits" or "all"',
    ),
    "a text for a list": (
        '[verify]\ncommands = "make test"',
        'commands = "make test": must be a list, like ["one", "two"]',
    ),
    "an entry of another type": (
        '[verify]\ncommands = ["a", 3]',
        "[verify] commands[2] = 3: must be text, in quotes",
    ),
    "an empty command": ('[verify]\ncommands = [" "]', 'commands[1] = " ": must not be empty'),
    "a chain with what is no name": (
        '[relay]\nchain = ["Claude Code"]',
        'chain[1] = "Claude Code": must be a prov',
    ),
    "a date": ("[retry]\nretry_message = 2025-01-01", "retry_message = 2025-01-01: must be text, in quotes"),
    "a relative folder": (
        '[providers.codex.accounts.work]\nconfig_dir = "$HOME/.codex"',
        '"$HOME/.codex": must be an absolute path, or begin with ~/ (variables are not expanded)',
    ),
    "another user's home": (
        '[providers.codex.accounts.w]\nconfig_dir = "~root/x"',
        "must be an absolute path",
    ),
    "a program in the folder an agent writes to": (
        '[providers.codex]\ncommand = "./codex"',
        "must be a name on PATH, an absolute path, or begin with ~/",
    ),
    "a program with arguments": (
        '[providers.codex]\ncommand = "codex exec"',
        'command = "codex exec": must be the program alone; its arguments go into "args"',
    ),
    "a model that would be an option": ('[providers.codex]\nmodel = "--yolo"', "must be a model's name"),
    "an address that is none": (
        '[providers.codex]\nbase_url = "localhost:80"',
        "must be a URL that begins with",
    ),
    "a variable of Relay's own": (
        '[providers.codex]\nenv = { RELAY_RUN = "x" }',
        "env.RELAY_RUN: is reserved",
    ),
    "a variable with no name": (
        '[providers.codex]\nenv = { "A B" = "x" }',
        "env.A B: is no name of a variable",
    ),
    "two active accounts": (
        "[providers.codex.accounts.a]\nactive = true\n[providers.codex.accounts.b]\nactive = true",
        "[providers.codex.accounts.b] active = true: only one account of a provider can be active, and a is",
    ),
    "a provider of one's own without a program": (
        '[providers.mine]\nkind = "acp"',
        '[providers.mine] kind = "acp": needs "command"',
    ),
    "a provider that there is not": (
        "[providers.cluade]\nenabled = true",
        '[providers.cluade] no provider cluade; did you mean "claude"? (there are: claude, codex, gemini;',
    ),
    "a model's name with a dot and no quotes": (
        "[prices.gpt-5.2]\ninput = 1",
        '[prices.gpt-5] unknown key "2"; a name with a dot in it is written in quotes: [prices."gpt-5.2"]',
    ),
    "more than one probe": ("[circuit]\nhalf_open_probes = 2", "half_open_probes = 2: must be 1"),
    "what would change the terminal": (
        '[verify]\ncommands = ["make \\u001b[8m"]',
        'commands[1] = "make \\u001b[8m": must not hold control characters',
    ),
}


@pytest.mark.parametrize(("text", "want"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_named_with_place_key_value_and_way_out(text: str, want: str) -> None:
    message = complaint(text, known=KNOWN)
    assert message.startswith("relay.toml:7: ")
    assert want in message
    assert "\n" not in message


def test_every_mistake_is_named_in_the_order_of_the_lines() -> None:
    lines = {("verify", "commands"): 9, ("relay", "server_port"): 2, ("relay", "colour"): 3}
    document = {"verify": {"commands": 1}, "relay": {"server_port": 0, "colour": "red"}}
    with pytest.raises(ConfigError) as caught:
        parse(document, file="f", line_of=lines.get)
    assert [line.split()[0] for line in caught.value.message.split("\n")] == ["f:2:", "f:3:", "f:9:"]


def test_a_secret_is_not_repeated() -> None:
    message = complaint('[providers.codex]\nenv = "KEY=hunter2"\nbase_url = "https://me:hunter2@x/"')
    assert message.count("\n") == 1
    assert "hunter2" not in message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [*TOP, *(key.name for s in SECTIONS for key in s.keys), "accounts", "work", "x.y"]
                )
                | st.text(max_size=4),
                inner,
                max_size=4,
            )
        ),
        max_leaves=25,
    )
)
def test_whatever_a_file_holds_it_is_read_or_refused(document: Any) -> None:
    if isinstance(document, dict):
        try:
            assert isinstance(parse(document, file="f", line_of=lambda _: None, known=KNOWN), Config)
        except ConfigError as error:
            assert all(line.startswith(("f: ", "and ")) for line in error.message.split("\n"))


ACCOUNTS = """
[relay]
chain = ["codex", "claude/work"]
[providers.claude.accounts.home]
[providers.claude.accounts.work]
active = true
[providers.gemini]
enabled = false
[providers.mine]
kind = "acp"
command = "mine"
"""

CHAINS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "no account configured: the agent's own login": (("codex",), ("codex",)),
    "all accounts, the active one first": (("claude",), ("claude/work", "claude/home")),
    "one account": (("claude/home",), ("claude/home",)),
    "the agent's own login beside accounts": (("claude/default",), ("claude",)),
    "one account, then the others": (("claude/home", "claude"), ("claude/home", "claude/work")),
    "a provider of one's own": (("mine", "codex", "mine"), ("mine", "codex")),
    "nothing": ((), ()),
}


@pytest.mark.parametrize(("names", "want"), CHAINS.values(), ids=CHAINS)
def test_a_chain_becomes_logins(names: tuple[str, ...], want: tuple[str, ...]) -> None:
    assert tuple(str(target) for target in config(ACCOUNTS).targets(names, KNOWN)) == want


BAD_CHAINS = {
    "an unknown provider": ("cluade", UnknownProviderError, 'no provider "cluade"; did you mean "claude"?'),
    "an unknown account": ("claude/wrok", ConfigError, 'no account "wrok"; did you mean "work"?'),
    "one that is not enabled": ("gemini", ConfigError, "provider gemini is not enabled"),
    "no name": ("Claude!", ConfigError, "is not a name"),
}


@pytest.mark.parametrize(("name", "error", "want"), BAD_CHAINS.values(), ids=BAD_CHAINS)
def test_a_chain_that_cannot_be_says_what_there_is(name: str, error: type[RelayError], want: str) -> None:
    with pytest.raises(error) as caught:
        config(ACCOUNTS).targets((name,), KNOWN)
    assert want in caught.value.message
    assert caught.value.hint


def test_without_a_chain_every_provider_found_and_enabled_is_used() -> None:
    assert config("").chain_names(KNOWN) == KNOWN
    assert config("[providers.claude]\nenabled = false").chain_names(KNOWN) == ("codex", "gemini")


def test_the_configured_chain_leaves_out_what_is_not_found() -> None:
    assert config(ACCOUNTS).chain_names(KNOWN) == ("codex", "claude/work")
    assert config(ACCOUNTS).chain_names(("claude",)) == ("claude/work",)


def test_the_settings_of_a_login_are_found() -> None:
    got = config('[providers.codex.accounts.work]\nconfig_dir = "/w"')
    assert got.account(Target(provider="codex", account="work")).config_dir == "/w"
    assert got.account(Target(provider="codex")) == AccountSettings(label="default")


def test_the_upper_file_wins_key_by_key() -> None:
    under = tomllib.loads(
        """
        [relay]
        max_handoffs = 3
        server_port = 5000
        [verify]
        commands = ["a", "b"]
        [providers.codex.accounts.mine]
        active = true
        config_dir = "/mine"
        """
    )
    over = tomllib.loads(
        """
        [relay]
        server_port = 6000
        [verify]
        commands = ["c"]
        [providers.codex.accounts.theirs]
        active = true
        """
    )
    before = repr((under, over))
    got = parse(merge(under, over), file="f", line_of=lambda _: None)
    assert (got.relay.max_handoffs, got.relay.server_port, got.verify.commands) == (3, 6000, ("c",))
    assert [(a.label, a.active, a.config_dir) for a in got.provider("codex").accounts] == [
        ("mine", False, "/mine"),
        ("theirs", True, None),
    ]
    assert repr((under, over)) == before


RISKS = {
    "an acceptance command": ('[verify]\ncommands = ["make test"]', ['[verify] commands = "make test"']),
    "a program": ('[providers.codex]\ncommand = "/x/codex"', ['[providers.codex] command = "/x/codex"']),
    "arguments": ('[providers.codex]\nargs = ["-c", "a b"]', ['[providers.codex] args = ["-c", "a b"]']),
    "an environment": ('[providers.codex]\nenv = { PATH = "/x" }', ['[providers.codex.env] PATH = "/x"']),
    "an address": ('[providers.codex]\nbase_url = "http://x"', ['[providers.codex] base_url = "http://x"']),
    "a permission mode": (
        '[providers.codex]\npermission_mode = "bypassPermissions"',
        ['[providers.codex] permission_mode = "bypassPermissions"'],
    ),
    "a new provider": (
        '[providers.mine]\nkind = "acp"\ncommand = "m"',
        ['[providers.mine] kind = "acp"', '[providers.mine] command = "m"'],
    ),
    "an account": (
        '[providers.codex.accounts.w]\nconfig_dir = "/c"\nenv = { A = "b" }',
        ['[providers.codex.accounts.w] config_dir = "/c"', '[providers.codex.accounts.w.env] A = "b"'],
    ),
    "everything allowed": ('[approvals]\nallow = "all"', ['[approvals] allow = "all"']),
    "commands that run unasked": ('[approvals]\ncommands = ["*"]', ['[approvals] commands = "*"']),
    "looking at the screen": (
        '[vision]\nenabled = true\napi_key_env = "K"\nbase_url = "http://x"',
        ["[vision] enabled = true", '[vision] api_key_env = "K"', '[vision] base_url = "http://x"'],
    ),
    "what hides a command from the eye": (
        '[verify]\ncommands = ["a\\u202e\\nb"]',
        ['[verify] commands = "a\\u202e\\nb"'],
    ),
    "nothing of the kind": (
        '[relay]\nchain = ["codex"]\nmax_handoffs = 2\n[providers.codex]\nmodel = "m"\ndeclared_cap = 5\n'
        '[retry]\nprefer = "wait"\n[approvals]\nallow = "edits"\n[profiles.x]\nkinds = ["a"]',
        [],
    ),
}


@pytest.mark.parametrize(("text", "want"), RISKS.values(), ids=RISKS)
def test_what_could_run_something_is_listed(text: str, want: list[str]) -> None:
    assert list(commands_named(config(text))) == want


def test_a_long_command_is_listed_to_its_end() -> None:
    command = "true " + " " * 5000 + "; other"
    assert commands_named(config(f'[verify]\ncommands = ["{command}"]')) == (
        f'[verify] commands = "{command}"',
    )


EVERY_KEY = [
    pytest.param(section, key, id=f"{'.'.join(section.path)}.{key.name}")
    for section in SECTIONS
    for key in section.keys
]
NEEDS_NO_TRUST = {
    "relay", "profiles", "retry", "circuit", "prices", "detect", "gc",
    "verify.timeout_seconds", "approvals.timeout_seconds",
    "providers.enabled", "providers.model", "providers.declared_cap", "providers.accounts.active",
    "vision.model", "vision.poll_ms",
}  # fmt: skip
"""Reviewed: none of these can run a program, change what runs, or send anything to another address."""

TELLING = {
    "providers.kind": "acp", "providers.command": "c", "providers.args": ("a",), "providers.env": {"A": "b"},
    "providers.base_url": "http://x", "providers.permission_mode": "m", "providers.accounts.config_dir": "/c",
    "providers.accounts.env": {"A": "b"}, "vision.enabled": True, "vision.provider": "p",
    "vision.api_key_env": "K", "vision.base_url": "http://x", "vision.window_match": "w",
    "verify.commands": ("v",), "approvals.allow": "all", "approvals.commands": ("c",),
}  # fmt: skip


@pytest.mark.parametrize(("section", "key"), EVERY_KEY)
def test_every_key_needs_trust_or_was_reviewed(section: Section, key: Key) -> None:
    name = ".".join((*section.path, key.name))
    if name in NEEDS_NO_TRUST or section.path[0] in NEEDS_NO_TRUST:
        return
    value = TELLING[name]
    if section.path == ("providers", "accounts"):
        account = AccountSettings(**{"label": "w", key.name: value})
        whole = Config(providers=(ProviderSettings(name="p", accounts=(account,)),))
    elif section.path == ("providers",):
        whole = Config(providers=(ProviderSettings(**{"name": "p", key.name: value}),))
    else:
        whole = Config(**{section.path[0]: section.builds(**{key.name: value})})
    assert len(commands_named(whole)) == 1


def test_taking_back_what_the_user_forbids_is_listed() -> None:
    mine = config('[approvals]\nallow = "ask"\n[providers.codex]\nenabled = false')
    merged = config('[approvals]\nallow = "edits"\n[providers.codex]\nenabled = true')
    assert loosened(mine, merged) == (
        '[approvals] allow = "edits" (your own file says "ask")',
        "[providers.codex] enabled = true (your own file says false)",
    )
    assert loosened(merged, mine) == ()


@pytest.mark.parametrize(("section", "key"), EVERY_KEY)
def test_every_default_is_one_that_the_file_could_say(section: Section, key: Key) -> None:
    default = section.default(key)
    if default is None or (key.name == "kind" and not default):
        return
    as_read = list(default) if isinstance(default, tuple) else default
    assert key.check(as_read) == default


def _documented() -> dict[str, str]:
    parts = re.split(r"(?m)^## +", DOC.read_text(encoding="utf-8"))
    return {part.split("\n", 1)[0]: part for part in parts[1:]}


@pytest.mark.parametrize("section", SECTIONS, ids=lambda s: ".".join(s.path))
def test_every_key_and_default_is_documented(section: Section) -> None:
    titles = {"providers": "`[providers.NAME]`", "providers.accounts": "`[providers.NAME.accounts.LABEL]`",
              "profiles": "`[profiles.NAME]`", "prices": "`[prices.MODEL]`"}  # fmt: skip
    name = ".".join(section.path)
    text = _documented()[titles.get(name, f"`[{name}]`")]
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| ([^|]*?) \|", text))
    assert list(rows) == [key.name for key in section.keys]
    for key in section.keys:
        default = section.default(key)
        if (
            isinstance(default, (bool, int, float))
            and section.path[0] != "prices"
            and key.name != "declared_cap"
        ):
            assert (
                rows[key.name] == f"`{str(default).lower() if isinstance(default, bool) else f'{default:g}'}`"
            )


def test_every_example_of_the_documentation_is_read() -> None:
    examples = re.findall(r"(?s)```toml\n(.*?)```", DOC.read_text(encoding="utf-8"))
    assert len(examples) >= len(SECTIONS)
    for example in examples:
        assert config(example, known=KNOWN) != Config()
