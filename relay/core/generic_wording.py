"""Error codes, words and HTTP statuses that mean the same whoever says them.

Tried by `relay.core.failures` after a provider's own table. Words were collected from the messages of
model APIs and their clients; what only one provider says is in that provider's table.
"""

from __future__ import annotations

from collections.abc import Mapping

from relay.core.events import FailureClass as F
from relay.core.wording import NO_WAIT, Phrase, Wording, says

_SUBJECT = (
    r"(?:(?:the |our |this |your |selected ){0,3}(?:model|server|service|engine|api|system)s?\b[^.]{0,40}? )?"
)
_YOU = r"(?:sorry, )?you(?:'ve| have|'re|r account has)?(?: \([^)]{1,60}\))?(?: have)? ?"
_OWNED = r"(?:your |the |this |model |account |token ){0,3}"
_WINDOW = (
    r"(?:(?:[0-9]{1,3}[- ]?(?:hours?|days?|h|d)|hourly|daily|weekly|monthly|session|usage|plan|spend(?:ing)?"
    r"|free|premium|requests?|quota|credits?|model|api|specified|tier) ?){1,4}"
)

CODES: Mapping[str, F] = {
    "usage_limit_reached": F.USAGE_LIMIT,
    "usage_limit_exceeded": F.USAGE_LIMIT,
    "usage_not_included": F.USAGE_LIMIT,
    "quota_exceeded": F.USAGE_LIMIT,
    "quota_exhausted": F.USAGE_LIMIT,
    "insufficient_quota": F.USAGE_LIMIT,
    "insufficient_credits": F.USAGE_LIMIT,
    "billing_error": F.USAGE_LIMIT,
    "billing_hard_limit_reached": F.USAGE_LIMIT,
    "payment_required": F.USAGE_LIMIT,
    "enforced_spend_limit_reached": F.USAGE_LIMIT,
    "credits_required": F.USAGE_LIMIT,
    "rate_limited": F.RATE_LIMIT,
    "authentication_error": F.AUTH,
    "authentication_failed": F.AUTH,
    "authentication": F.AUTH,
    "unauthenticated": F.AUTH,
    "unauthorized": F.AUTH,
    "invalid_api_key": F.AUTH,
    "api_key_invalid": F.AUTH,
    "validation_required": F.AUTH,
    "unsupported_client": F.AUTH,
    "token_expired": F.AUTH,
    "auth_required": F.AUTH,
    "context_length_exceeded": F.CONTEXT_OVERFLOW,
    "context_window_exceeded": F.CONTEXT_OVERFLOW,
    "context_overflow_error": F.CONTEXT_OVERFLOW,
    "context_window_overflow_error": F.CONTEXT_OVERFLOW,
    "exceed_context_size_error": F.CONTEXT_OVERFLOW,
    "prompt_too_long": F.CONTEXT_OVERFLOW,
    "string_above_max_length": F.CONTEXT_OVERFLOW,
    "overloaded_error": F.OVERLOAD,
    "overloaded": F.OVERLOAD,
    "server_overloaded": F.OVERLOAD,
    "server_is_overloaded": F.OVERLOAD,
    "model_capacity_exhausted": F.OVERLOAD,
    "slow_down": F.OVERLOAD,
    "content_filter": F.REFUSAL,
    "content_filter_error": F.REFUSAL,
    "content_policy_violation": F.REFUSAL,
    "prohibited_content": F.REFUSAL,
    "refusal": F.REFUSAL,
    "refusal_suspected": F.REFUSAL,
    "ECONNRESET": F.NETWORK,
    "ECONNREFUSED": F.NETWORK,
    "ECONNABORTED": F.NETWORK,
    "ETIMEDOUT": F.NETWORK,
    "ENOTFOUND": F.NETWORK,
    "ENETUNREACH": F.NETWORK,
    "EHOSTUNREACH": F.NETWORK,
    "EAI_AGAIN": F.NETWORK,
    "EPIPE": F.NETWORK,
    "UND_ERR_SOCKET": F.NETWORK,
    "unsupported_country_region_territory": F.NETWORK,
    "model_not_found": F.OTHER,
    "max_output_tokens": F.OTHER,
    "error_max_turns": F.OTHER,
    "error_max_budget_usd": F.OTHER,
}

WEAK_CODES: Mapping[str, F] = {
    "rate_limit_error": F.RATE_LIMIT,
    "rate_limit_exceeded": F.RATE_LIMIT,
    "rate_limit": F.RATE_LIMIT,
    "RateLimitError": F.RATE_LIMIT,
    "too_many_requests": F.RATE_LIMIT,
    "resource_exhausted": F.RATE_LIMIT,
    "request_too_large": F.CONTEXT_OVERFLOW,
    "permission_error": F.AUTH,
    "permission_denied": F.AUTH,
    "internal_server_error": F.OVERLOAD,
    "server_error": F.OVERLOAD,
    "api_error": F.OVERLOAD,
    "internal": F.OVERLOAD,
    "unavailable": F.OVERLOAD,
    "deadline_exceeded": F.NETWORK,
    "timeout_error": F.NETWORK,
    "timeout": F.NETWORK,
    "connection_error": F.NETWORK,
    "api_connection_error": F.NETWORK,
}

CODE_RESETS: Mapping[str, str] = {
    "insufficient_quota": NO_WAIT,
    "insufficient_credits": NO_WAIT,
    "billing_error": NO_WAIT,
    "billing_hard_limit_reached": NO_WAIT,
    "payment_required": NO_WAIT,
    "credits_required": NO_WAIT,
    "usage_not_included": NO_WAIT,
    "enforced_spend_limit_reached": "month-start:next;tz=UTC",
    "unsupported_country_region_territory": NO_WAIT,
}

_NOTHING = (
    # The quota poll itself was throttled; the account is not used up.
    says(
        F.NONE,
        r"(?:http )?(?:error )?\b[45][0-9]{2}\b[^.]{0,60}\b(?:GET|POST) \S{0,200}"
        r"/(?:usage|usage-summary|quota|credits)\b",
    ),
)
_CONTEXT = (
    says(F.CONTEXT_OVERFLOW, r"prompt is too long\b"),
    says(F.CONTEXT_OVERFLOW, r"request too large\b"),
    says(
        F.CONTEXT_OVERFLOW,
        r"(?:(?:the |this |your )?(?:input|prompt|requests?|conversation|messages?|context|session)\b"
        r"[^.]{0,90}? )?"
        r"exceed(?:s|ed|ing)? (?:the )?(?:model'?s? |maximum |available |max ){0,3}(?:context|model limit)\b",
    ),
    says(
        F.CONTEXT_OVERFLOW,
        r"(?:the )?input (?:token count|length)\b[^.]{0,60} exceeds? (?:the )?max(?:imum)?\b",
    ),
    says(F.CONTEXT_OVERFLOW, r"(?:this model's |the )?maximum context length (?:is|of) [0-9]"),
    says(F.CONTEXT_OVERFLOW, r"(?:[\w.-]{1,30} )?ran out of room in the model's context window"),
    says(F.CONTEXT_OVERFLOW, r"(?:the )?context (?:window|length|size) (?:is )?(?:exceeded|full)\b"),
)
_BILLING = (
    says(F.USAGE_LIMIT, r"(?:your )?credit balance is too low", reset=NO_WAIT),
    says(
        F.USAGE_LIMIT,
        r"(?:your )?(?:prepa\w+ )?credits? (?:are|is|have been) (?:depleted|exhausted)",
        reset=NO_WAIT,
    ),
    says(F.USAGE_LIMIT, r"(?:you (?:have )?)?insufficient (?:credits?|balance|funds|quota)\b", reset=NO_WAIT),
    says(
        F.USAGE_LIMIT,
        r"(?:you(?:'ve| have)? exceeded your (?:current )?quota|quota exceeded)\b[^.]{0,20}[.,] "
        r"(?:please )?check your plan and billing",
        reset=NO_WAIT,
    ),
    says(F.USAGE_LIMIT, _YOU + r"(?:hit|reached) (?:your|the) (?:\w+ )?spend(?:ing)? cap\b", reset=NO_WAIT),
    says(F.USAGE_LIMIT, r"payment required\b", reset=NO_WAIT),
)
_OVERLOAD = (
    says(F.OVERLOAD, r"(?:the )?server is temporarily limiting requests"),
    says(F.OVERLOAD, r"\(not your usage limit\)"),
    says(
        F.OVERLOAD,
        r"(?:repeated )?(?:529 )?" + _SUBJECT + r"overloaded\b(?! (?:twice|function|operator|method))",
    ),
    says(F.OVERLOAD, _SUBJECT + r"(?:is )?(?:at|over) (?:full )?capacity\b"),
    says(
        F.OVERLOAD,
        r"(?:we're |we are )?(?:currently )?(?:experiencing|facing) (?:very )?high (?:demand|load)",
    ),
    says(F.OVERLOAD, r"server busy\b"),
    says(
        F.OVERLOAD,
        r"(?:the |this |selected ){0,2}(?:model|server|service|api) (?:is )?"
        r"(?:temporarily |currently )?unavailable\b",
    ),
    says(F.OVERLOAD, r"temporarily unavailable\b"),
    says(F.OVERLOAD, r"bad gateway\b|gateway time-?out\b"),
    says(F.OVERLOAD, r"(?:an )?internal (?:server )?error(?: has)? occurred|internal server error\b"),
    says(F.OVERLOAD, r"the server had an error\b"),
)
_USAGE = (
    says(
        F.USAGE_LIMIT,
        _YOU
        + r"(?:hit|reached|exceeded|exhausted|used up|run out of) (?:all )?(?:of )?(?:your|the) "
        + r"(?:\w+(?: \w+)? )?"
        + _WINDOW
        + r"?(?:limits?|quotas?|allowance|requests)\b(?! of [0-9,]+ (?:input |output )?tokens)",
    ),
    says(
        F.USAGE_LIMIT,
        _OWNED + _WINDOW + r"(?:limits? |quotas? )?(?:has been |was )?(?:reached|exceeded|exhausted|hit)\b",
    ),
    says(F.USAGE_LIMIT, _YOU + r"(?:have )?no (?:remaining )?quota\b"),
    says(
        F.USAGE_LIMIT,
        _OWNED + r"quota (?:limit )?(?:has been )?(?:exceeded|exhausted|reached)\b",
    ),
    says(F.USAGE_LIMIT, r"rate limit exceeded: [\w-]{0,30}per-day\b"),
    says(F.USAGE_LIMIT, r"out of (?:usage|quota|credits)\b"),
)
_RATE = (
    says(F.RATE_LIMIT, r"(?:api |global )?rate[- ]limit (?:has been )?(?:exceeded|reached|hit)\b"),
    says(F.RATE_LIMIT, r"rate limited\b(?! error)"),
    says(F.RATE_LIMIT, r"too many requests\b"),
    says(
        F.RATE_LIMIT,
        r"(?:this )?request would exceed (?:your|the) (?:account|organization|workspace)'s rate limit",
    ),
    says(F.RATE_LIMIT, _YOU + r"(?:hit|reached|exceeded) (?:a|the|your) rate limit\b"),
    says(F.RATE_LIMIT, r"exceeded retry limit, last status: 429\b"),
)
_AUTH = (
    says(F.AUTH, r"(?:you are )?not (?:logged|signed) in\b"),
    says(F.AUTH, r"(?:please )?(?:run|use) [`'\"]?/?(?:\w+ )?(?:/login|login|auth)\b"),
    says(
        F.AUTH,
        r"(?:your )?(?:the )?(?:invalid|incorrect|missing|expired|no) (?:\w+ )?"
        r"(?:api[ -]key|auth(?:entication)? credentials?|access token)\b",
    ),
    says(F.AUTH, r"(?:your |the )?api[ -]key (?:is )?(?:not valid|invalid|expired|missing|not found)\b"),
    says(
        F.AUTH,
        r"(?:your |the )?(?:oauth |access |refresh |authentication |session ){0,3}token "
        r"(?:has |is |was )?(?:been )?(?:expired|revoked|invalid)\b",
    ),
    says(F.AUTH, r"(?:failed to authenticate|authentication (?:failed|required|error))\b"),
    says(F.AUTH, r"request had invalid authentication credentials"),
    says(F.AUTH, r"(?:unexpected status )?(?:401 )?unauthorized\b"),
    says(F.AUTH, r"missing environment variable: [`'\"]?\w{0,60}(?:KEY|TOKEN|SECRET)\w{0,10}[`'\"]?"),
    says(F.AUTH, r"your organization has (?:disabled|blocked)\b"),
    says(F.AUTH, r"(?:validation|verification) required\b"),
    says(
        F.AUTH,
        r"(?:your )?(?:membership|subscription|plan) (?:has |is )?(?:expired|inactive|ended|cancell?ed)\b",
    ),
)
_NETWORK = (
    says(F.NETWORK, r"access blocked by \w+", reset=NO_WAIT),
    says(F.NETWORK, r"(?:this )?country, region,? or territory (?:is )?not supported", reset=NO_WAIT),
    says(
        F.NETWORK,
        r"(?:the )?(?:socket|connection|stream)(?: connection)? (?:was |has been |is )?(?:\w+ )?"
        r"(?:error|reset|refused|closed|aborted|lost|disconnected|terminated|timed out)\b",
    ),
    says(F.NETWORK, r"socket hang up\b"),
    says(F.NETWORK, r"stream disconnected before completion\b"),
    says(F.NETWORK, r"(?:the )?(?:request|connection|operation|read|response) timed out\b"),
    says(
        F.NETWORK, r"(?:typeerror: )?(?:fetch failed|failed to fetch|network error|network is unreachable)\b"
    ),
    says(F.NETWORK, r"(?:unable|failed) to (?:connect|reach|resolve)\b"),
    says(
        F.NETWORK,
        r"(?:error sending request|getaddrinfo|could not resolve host|temporary failure in name)\b",
    ),
    says(
        F.NETWORK,
        r"\b(?:ECONN(?:RESET|REFUSED|ABORTED)|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|ENETUNREACH"
        r"|EHOSTUNREACH|UND_ERR_\w+)\b",
    ),
    says(F.NETWORK, r"(?:model )?stream ended without\b"),
    says(F.NETWORK, r"terminated\b"),
    says(F.NETWORK, r"unexpected eof\b|error (?:decoding response|reading a) body\b"),
)
_REFUSAL = (
    says(F.REFUSAL, r"(?:[a-z][\w.]{1,20} ){0,3}is unable to respond to this request\b"),
    says(
        F.REFUSAL,
        r"(?:(?:this |your |the )?(?:request|prompt|message|content)\b[^.]{0,60}? )?"
        r"violat\w{1,4} (?:our|the|\w+'s) (?:usage |content |safety )?polic(?:y|ies)",
    ),
    says(F.REFUSAL, r"[\w.]{1,30}(?: [\w.]{1,12}){0,3}'s safeguards flagged this message\b"),
    says(
        F.REFUSAL,
        r"(?:the |this )?(?:response|request|prompt|message|output)? ?(?:was )?"
        r"(?:blocked|flagged|filtered) (?:by|for|as|due to) [^.]{0,40}(?:content|safety|polic)",
    ),
    says(F.REFUSAL, r"(?:the )?(?:model )?declined to (?:answer|respond|continue)\b"),
)
_MODEL = (
    says(
        F.OTHER,
        r"(?:there's an issue with the selected model"
        r"|(?:the )?model [`'\"]?[\w.:/-]{1,60}[`'\"]? (?:does not exist|not found))",
    ),
)

PHRASES: tuple[Phrase, ...] = (
    *_NOTHING,
    *_CONTEXT,
    *_REFUSAL,
    *_BILLING,
    *_OVERLOAD,
    *_USAGE,
    *_RATE,
    *_MODEL,
    *_AUTH,
    *_NETWORK,
)

GENERIC = Wording(codes=CODES, weak_codes=WEAK_CODES, code_resets=CODE_RESETS, phrases=PHRASES)


def status_class(status: int | None) -> F | None:
    """What an HTTP status means when nothing else decides; None below 400."""
    if status is None or not 400 <= status < 600:
        return None
    if status >= 500:
        return F.OVERLOAD
    return _STATUSES.get(status, F.OTHER)


def allowed_by(status: int | None, failure: F) -> bool:
    """Words cannot overrule the status: a 401 is no overload, whatever the text around it says."""
    if status is None or status < 400:
        return True
    if status >= 500:
        return failure in (F.OVERLOAD, F.NETWORK, F.CONTEXT_OVERFLOW)
    return failure in _ALLOWED.get(status, frozenset(F))


_STATUSES: Mapping[int, F] = {
    401: F.AUTH,
    402: F.USAGE_LIMIT,
    403: F.AUTH,
    407: F.NETWORK,
    408: F.NETWORK,
    413: F.CONTEXT_OVERFLOW,
    425: F.RATE_LIMIT,
    429: F.RATE_LIMIT,
    499: F.NETWORK,
}
_ALLOWED: Mapping[int, frozenset[F]] = {
    401: frozenset({F.AUTH}),
    402: frozenset({F.USAGE_LIMIT}),
    413: frozenset({F.CONTEXT_OVERFLOW}),
    429: frozenset({F.USAGE_LIMIT, F.RATE_LIMIT, F.OVERLOAD, F.CONTEXT_OVERFLOW}),
}
