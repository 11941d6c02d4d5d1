"""How each provider words its failures, by the provider's name.

Adding a provider adds an entry here at most; what is not here is read by the words common to all
(`relay.core.generic_wording`). Sources: the CLIs' own output as recorded (Claude Code 2.1, Codex 0.171,
Gemini CLI, OpenCode, Qwen Code, Copilot CLI), their sources, and public reports of the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from relay.core.events import FailureClass as F
from relay.core.wording import NO_WAIT, Wording, says

SHORT_WAIT = 300.0
"""Seconds: Gemini CLI itself gives up on a longer one (packages/core/src/utils/googleQuotaErrors.ts)."""

PACIFIC_MIDNIGHT = "clock:00:00;tz=America/Los_Angeles"
"""Google's daily quotas begin anew then (ai.google.dev/gemini-api/docs/rate-limits)."""

_GOOGLE_QUOTA_IDS = (
    says(F.USAGE_LIMIT, r"per_?day|daily", reset=PACIFIC_MIDNIGHT),
    says(F.RATE_LIMIT, r"per_?minute"),
)
_GOOGLE_PHRASES = (
    # The quota poll was throttled, the account is not used up.
    says(F.NONE, r"(?:http )?[45][0-9]{2}\b[^.]{0,40}\bPOST \S{0,200}:retrieveUserQuota\b"),
    says(F.USAGE_LIMIT, r"you have exhausted your daily quota\b", reset=PACIFIC_MIDNIGHT),
    says(F.USAGE_LIMIT, r"\blimit: 0(?![.0-9])", reset=NO_WAIT),
    says(F.USAGE_LIMIT, r"quota exceeded for [^,]{0,120}\bper day\b", reset=PACIFIC_MIDNIGHT),
    says(F.RATE_LIMIT, r"you have exhausted your capacity on this model\b", usage_over=SHORT_WAIT),
    says(F.RATE_LIMIT, r"resource (?:has been )?exhausted\b", usage_over=SHORT_WAIT),
    says(F.RATE_LIMIT, r"quota exceeded\b", usage_over=SHORT_WAIT),
    # The words that mean an empty purse elsewhere are Google's for a quota of the day.
    says(F.USAGE_LIMIT, r"you exceeded your current quota\b", reset="unknown:probe"),
)

CLAUDE = Wording(
    codes={"oauth_org_not_allowed": F.AUTH},
    phrases=(
        says(F.USAGE_LIMIT, r"claude (?:ai |code )?usage limit reached\b"),
        says(F.USAGE_LIMIT, r"you(?:'ve| have) (?:hit|reached) your (?:[\w.-]{1,20} ){0,3}limit\b"),
        says(F.USAGE_LIMIT, r"you(?:'ve| have) reached your specified api usage limits\b"),
        says(F.USAGE_LIMIT, r"you(?:'re| are) out of extra usage\b"),
        says(F.AUTH, r"your (?:account|organization) does not have access to claude\b"),
        says(F.AUTH, r"your organization has (?:disabled|blocked)\b"),
        says(F.USAGE_LIMIT, r"(?:[0-9]{1,2}-hour|weekly|session|[a-z]{4,8}(?: weekly)?) limit reached\b"),
    ),
)

CODEX = Wording(
    codes={
        "rate_limit_exceeded": F.RATE_LIMIT,
        "cyber_policy": F.REFUSAL,
        "invalid_prompt": F.REFUSAL,
        "session_budget_exceeded": F.USAGE_LIMIT,
        "sandbox_error": F.OTHER,
        "resume_failed": F.OTHER,
        "start_failed": F.OTHER,
    },
    weak_codes={
        # usage_limit_exceeded is also said for an empty purse; the words tell them apart.
        "http_connection_failed": F.NETWORK,
        "response_stream_connection_failed": F.NETWORK,
        "response_stream_disconnected": F.NETWORK,
        "response_too_many_failed_attempts": F.NETWORK,
        "internal_server_error": F.OVERLOAD,
        "bad_request": F.OTHER,
    },
    phrases=(
        # Codex's own cap on parallel agents.
        says(F.NONE, r"agent thread limit reached\b"),
        says(F.USAGE_LIMIT, r"you(?:'ve| have) (?:hit|reached) (?:your|the) usage limit\b"),
        says(F.USAGE_LIMIT, r"to use codex with your \w+ plan, upgrade\b", reset=NO_WAIT),
        says(F.AUTH, r"your access token could not be refreshed\b"),
        says(F.OTHER, r"incomplete response returned\b"),
    ),
)

GEMINI = Wording(code_phrases=_GOOGLE_QUOTA_IDS, phrases=_GOOGLE_PHRASES)

ANTIGRAVITY = Wording(
    code_phrases=_GOOGLE_QUOTA_IDS,
    phrases=(says(F.USAGE_LIMIT, r"model quota limit exceeded\b"), *_GOOGLE_PHRASES),
)

QWEN = Wording(
    codes={"AllocationQuota.FreeTierOnly": F.USAGE_LIMIT},
    weak_codes={
        "Throttling": F.RATE_LIMIT,
        "Throttling.RateQuota": F.RATE_LIMIT,
        "limit_requests": F.RATE_LIMIT,
    },
    code_resets={"AllocationQuota.FreeTierOnly": NO_WAIT},
    phrases=(
        says(F.USAGE_LIMIT, r"(?:the )?free tier of the model has been exhausted\b", reset=NO_WAIT),
        says(F.USAGE_LIMIT, r"(?:free )?allocated quota exceeded\b"),
        says(
            F.USAGE_LIMIT,
            r"(?:your |the )?free (?:daily )?quota\b[^.]{0,40}\b(?:exceeded|exhausted|used up)\b",
        ),
    ),
)

COPILOT = Wording(
    weak_codes={"query": F.OTHER, "requests": F.RATE_LIMIT, "tokens": F.RATE_LIMIT},
    phrases=(
        # The quota poll was throttled, the account is not used up.
        says(F.NONE, r"(?:http )?[45][0-9]{2}\b[^.]{0,40}\bGET \S{0,200}/copilot_internal/user\b"),
        says(
            F.RATE_LIMIT,
            r"(?:sorry, )?you(?:'ve| have) (?:hit|exceeded|reached) (?:a|your|the) "
            r"(?:copilot |token |usage )*rate limit\b",
            usage_over=SHORT_WAIT,
        ),
        says(F.USAGE_LIMIT, r"you have no quota\b"),
        says(F.USAGE_LIMIT, r"you(?:'ve| have) (?:used|exhausted|reached)[^.]{0,30}\bpremium requests?\b"),
    ),
)

CURSOR = Wording(
    # Capacity, not quota: Cursor's proxy says it for itself.
    codes={"resource_exhausted": F.OVERLOAD},
    phrases=(
        says(F.OVERLOAD, r"(?:connect error )?resource_exhausted\b"),
        says(F.USAGE_LIMIT, r"you(?:'ve| have) (?:hit|reached) your (?:\w+ ){0,2}limit\b"),
    ),
)

OPENCODE = Wording(
    codes={"ProviderAuthError": F.AUTH, "MessageAbortedError": F.OTHER, "MessageOutputLengthError": F.OTHER},
    phrases=(
        says(F.USAGE_LIMIT, r"free usage exceeded\b"),
        says(F.USAGE_LIMIT, r"(?:weekly|rolling|monthly) usage\b[^.]{0,30}\blimit\b"),
    ),
)

OPENAI = Wording()

OPENROUTER = Wording(
    code_phrases=(says(F.USAGE_LIMIT, r"_daily\b|per[-_]day"),),
    phrases=(
        says(F.USAGE_LIMIT, r"rate limit exceeded: free-models-per-day\b"),
        says(F.RATE_LIMIT, r"rate limit exceeded: free-models-per-min\b"),
        says(F.RATE_LIMIT, r"[\w./:-]{1,80} is temporarily rate-limited upstream\b"),
    ),
)

OLLAMA = Wording(
    phrases=(
        says(
            F.USAGE_LIMIT,
            r"you(?:'ve| have)?(?: \([^)]{1,60}\))?(?: have)? reached your \w{1,10} usage limit\b",
        ),
    ),
)

KIMI = Wording(
    # The same code serves a throttle of parallel calls: probe rather than wait for hours.
    codes={"rate_limit_reached_error": F.USAGE_LIMIT, "exceeded_current_quota_error": F.USAGE_LIMIT},
    code_resets={"exceeded_current_quota_error": NO_WAIT},
    phrases=(says(F.AUTH, r"membership (?:has )?expired\b"),),
)

WORDINGS: Mapping[str, Wording] = {
    "claude": CLAUDE,
    "codex": CODEX,
    "gemini": GEMINI,
    "antigravity": ANTIGRAVITY,
    "qwen": QWEN,
    "copilot": COPILOT,
    "cursor": CURSOR,
    "opencode": OPENCODE,
    "openai": OPENAI,
    "openrouter": OPENROUTER,
    "ollama": OLLAMA,
    "kimi": KIMI,
}


def wording_of(provider: str) -> Wording:
    """The table of a provider; an empty one for a provider that has none."""
    return WORDINGS.get(provider, Wording())
