"""Every key of relay.toml: its section, what it takes and one line about it.

Read by the parser, by the starter file and by the test of the documentation, so that the three agree.
The defaults stand in the classes of `relay.core.config` and the policies of the core.
"""

from __future__ import annotations

from typing import Any

from attrs import fields_dict, frozen

from relay.core.chain import LABEL_SHAPE, NAME_SHAPE
from relay.core.config import (
    AccountSettings,
    ApprovalSettings,
    DetectSettings,
    GcSettings,
    PriceSettings,
    ProfileSettings,
    ProviderSettings,
    RelaySettings,
    VerifySettings,
    VisionSettings,
)
from relay.core.config_checks import (
    MODE,
    MODEL,
    VARIABLE,
    Check,
    environment,
    flag,
    number,
    one_of,
    path,
    program,
    target,
    text,
    texts,
    url,
    whole,
)
from relay.core.policies import ALLOW_LEVELS, CircuitPolicy, Prefer, RetryPolicy


@frozen(kw_only=True)
class Key:
    """One key.

    Args:
        check: turns the value as read into the value as kept, or into a `Wrong`.
        about: one line for people.
        example: a value as read, for the starter file, where the default is no value.
        secret: its value is not repeated in an error.
    """

    name: str
    check: Check
    about: str
    example: Any = None
    secret: bool = False


@frozen(kw_only=True)
class Section:
    """One section, or one sort of named section.

    Args:
        path: of the table; for a named section without its name.
        builds: the class its values go to. A key that the class lacks is checked and not kept.
        name_check: for a named section: what its names must be; None for a section of its own.
        name_field: the field of the class that takes the name.
        name_example: for the starter file.
    """

    path: tuple[str, ...]
    builds: type
    about: str
    keys: tuple[Key, ...]
    name_check: Check | None = None
    name_field: str = "name"
    name_example: str = ""

    def default(self, key: Key) -> Any:
        """What holds when the key is left out: None for "nothing"."""
        attributes = fields_dict(self.builds)
        default: Any = attributes[key.name].default if key.name in attributes else key.example
        return default.factory() if hasattr(default, "factory") else default


RELAY = Section(
    path=("relay",),
    builds=RelaySettings,
    about="The daemon, and how sessions change agents.",
    keys=(
        Key(name="chain", check=texts(target()),
            about="providers in your order, each as NAME or NAME/ACCOUNT; empty: all that are found"),
        Key(name="server_port", check=whole(1, 65535), about="port of the daemon on 127.0.0.1"),
        Key(name="handoff_threshold", check=number(0.05, 1),
            about="hand off once this fraction of a quota window is used"),
        Key(name="pause_deadline_seconds", check=number(0, 3600),
            about="how long a handoff waits for a running tool call"),
        Key(name="heartbeat_seconds", check=number(1, 86400),
            about="a started agent that shows no sign of life for so long has failed"),
        Key(name="max_handoffs", check=whole(0, 1000), about="how often one session may change agents"),
        Key(name="snapshot_max_file_mb", check=whole(1, 10240), about="larger files stay out of snapshots"),
    ),
)  # fmt: skip

PROVIDER = Section(
    path=("providers",),
    builds=ProviderSettings,
    about="One agent, by its name in `relay providers list`; or one of your own that speaks ACP.",
    name_check=text(shape=NAME_SHAPE, what="a provider's name: small letters, digits, - and _"),
    name_example="my-agent",
    keys=(
        Key(name="enabled", check=flag(), about="false: never used"),
        Key(name="kind", check=one_of("acp"), example="acp",
            about="adds a provider that speaks ACP; needs a command. Leave it out for the ones Relay knows"),
        Key(name="command", check=program(), example="my-agent",
            about="the program: a name on PATH, or an absolute path"),
        Key(name="args", check=texts(text(empty=True)), about="additional arguments"),
        Key(name="env", check=environment(), about="additional environment", secret=True),
        Key(name="model", check=text(shape=MODEL, empty=True, what="a model's name"),
            about="model; empty: the agent's own default"),
        Key(name="base_url", check=url(), about="API base URL; empty: the agent's own", secret=True),
        Key(name="permission_mode", check=text(shape=MODE, empty=True, what="a permission mode's name"),
            about="the agent's own name of a permission mode; empty: the one that fits `allow`"),
        Key(name="declared_cap", check=whole(1, 10**15), example=2_000_000,
            about="tokens you let it spend, where the agent itself tells no quota"),
    ),
)  # fmt: skip

ACCOUNT = Section(
    path=("providers", "accounts"),
    builds=AccountSettings,
    about="One login of a provider.",
    name_check=text(shape=LABEL_SHAPE, what="a label: letters, digits, . - and _"),
    name_field="label",
    name_example="work",
    keys=(
        Key(name="active", check=flag(), about="begin with this one"),
        Key(name="config_dir", check=path(), example="~/.my-agent-work",
            about="the agent's own configuration folder for this login; absolute, or beginning with ~/"),
        Key(name="env", check=environment(), about="additional environment", secret=True),
    ),
)  # fmt: skip

PROFILE = Section(
    path=("profiles",),
    builds=ProfileSettings,
    about="How one sort of task is worked on; chosen with --profile.",
    name_check=text(shape=LABEL_SHAPE, what="a profile's name: letters, digits, . - and _"),
    name_example="docs",
    keys=(
        Key(name="chain", check=texts(target()), about="as in [relay]; empty: that one"),
        Key(name="kinds", check=texts(text()), about="words for this sort of task"),
        Key(name="skills", check=texts(text()), about="skills the agent is told to use"),
        Key(name="context_hint", check=text(8000, lines=True, empty=True), about="goes before the task"),
    ),
)  # fmt: skip

RETRY = Section(
    path=("retry",),
    builds=RetryPolicy,
    about="What happens when an agent fails: ask again, wait, or hand off.",
    keys=(
        Key(name="enabled", check=flag(), about="false: never wait, never ask again; hand off, or ask you"),
        Key(name="prefer", check=one_of(*Prefer),
            about="at a limit: wait for its reset, hand off, or wait for a reset that is near"),
        Key(name="max_wait_minutes", check=number(0, 43200), about="the longest wait for a reset"),
        Key(name="backoff_seconds", check=number(0, 3600), about="first pause before asking again; doubles"),
        Key(name="jitter_pct", check=number(0, 100), about="how far a pause may vary, in percent"),
        Key(name="max_retries", check=whole(0, 1000), about="how often the same agent is asked again"),
        Key(name="margin_seconds", check=number(0, 3600), about="added to the reset the provider tells"),
        Key(name="retry_message", check=text(2000, lines=True), about="what the agent is told then"),
    ),
)  # fmt: skip

CIRCUIT = Section(
    path=("circuit",),
    builds=CircuitPolicy,
    about="When a provider that keeps failing is left alone for a while.",
    keys=(
        Key(name="failures", check=whole(1, 100), about="failures in a row that open the breaker"),
        Key(name="open_seconds", check=number(1, 3600),
            about="how long it is left alone the first time; doubles each time, up to an hour"),
        Key(name="half_open_probes", check=whole(1, 1), example=1,
            about="tries at a time after that; one is the only choice there is"),
    ),
)  # fmt: skip

VISION = Section(
    path=("vision",),
    builds=VisionSettings,
    about="Asking a model about a screenshot of an agent's window.",
    keys=(
        Key(name="enabled", check=flag(), about="true: screenshots may be taken and sent to the model"),
        Key(name="provider", check=text(shape=NAME_SHAPE, empty=True, what="a name"), about="whose model"),
        Key(name="model", check=text(shape=MODEL, empty=True, what="a model's name"), about="the model"),
        Key(name="api_key_env", check=text(shape=VARIABLE, empty=True, what="a variable's name"),
            about="name of the environment variable that holds the key (never the key itself)", secret=True),
        Key(name="base_url", check=url(), about="API base URL; empty: the provider's own", secret=True),
        Key(name="poll_ms", check=whole(250, 3_600_000), about="milliseconds between two looks"),
        Key(name="window_match", check=text(empty=True), about="part of the window's title"),
    ),
)  # fmt: skip

VERIFY = Section(
    path=("verify",),
    builds=VerifySettings,
    about="Commands that must pass before work is accepted.",
    keys=(
        Key(name="commands", check=texts(text(8000, lines=True)),
            about="run by the shell in the session's worktree, in this order"),
        Key(name="timeout_seconds", check=number(1, 86400), about="for each command"),
    ),
)  # fmt: skip

APPROVALS = Section(
    path=("approvals",),
    builds=ApprovalSettings,
    about="What an agent may do unasked.",
    keys=(
        Key(name="allow", check=one_of(*ALLOW_LEVELS),
            about='"ask": nothing; "edits": changes in the session\'s worktree; "all": everything'),
        Key(name="commands", check=texts(text(1000)),
            about='shell commands that run unasked, as globs ("git status*"); never with ; | & $ in them'),
        Key(name="timeout_seconds", check=number(5, 86400),
            about="a question unanswered for so long means no"),
    ),
)  # fmt: skip

DETECT = Section(
    path=("detect",),
    builds=DetectSettings,
    about="Noticing agents that Relay did not start. Counts in your own relay.toml, when the daemon starts.",
    keys=(
        Key(name="ambient", check=flag(), about="false: new agent sessions are not announced"),
        Key(name="interval_seconds", check=number(1, 86400), about="how often the daemon looks for them"),
    ),
)  # fmt: skip

GC = Section(
    path=("gc",),
    builds=GcSettings,
    about="Clearing away what ended sessions left. Counts in your own relay.toml, when the daemon starts.",
    keys=(
        Key(name="enabled", check=flag(), about="false: only `relay gc` clears away"),
        Key(name="keep_days", check=number(0, 36500), about="what ended within so many days is kept"),
        Key(name="output_max_mb", check=whole(1, 10**9),
            about="of the output of ended sessions, in one repository; the oldest goes first"),
    ),
)  # fmt: skip

PRICE = Section(
    path=("prices",),
    builds=PriceSettings,
    about="US dollars per million tokens, in place of the built-in prices.",
    name_check=text(shape=MODEL, what="a model's name"),
    name_field="model",
    name_example="some-model-1.5",
    keys=(
        Key(name="input", check=number(0, 1e6), example=3.0, about="input that was not cached"),
        Key(name="cached_input", check=number(0, 1e6), example=0.3, about="input read from the cache"),
        Key(name="output", check=number(0, 1e6), example=15.0, about="output, reasoning included"),
    ),
)

SECTIONS = (RELAY, PROVIDER, ACCOUNT, PROFILE, RETRY, CIRCUIT, VISION, VERIFY, APPROVALS, DETECT, GC, PRICE)
"""In the order of the starter file and of the documentation."""

TOP = {section.path[0]: section for section in SECTIONS if len(section.path) == 1}
"""Sections by the name they have at the top of the file."""
