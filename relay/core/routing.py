"""What sort of task a user gives, and which of the user's profiles is meant for that sort.

Pure, and by words alone: no model is asked. Used when a session begins without `-p` and `--profile`, and
measured by the evaluation suite. Where nothing speaks for a sort, there is none, and the general chain holds.
"""

from __future__ import annotations

import re

from relay.core.config import ProfileSettings

_LONGEST = 20_000

_VERBS: dict[str, str] = {
    "docs": r"document|describe|state|write up|explain in|annotate|translate|proofread|summari[sz]e",
    "test": r"test|cover|unit[- ]test|increase (?:the )?(?:test )?coverage",
    "bugfix": r"fix|mend|repair|debug|solve|resolve|correct|hotfix|patch|find out why|investigate|diagnose|"
    r"reproduce|stop|prevent|bisect",
    "refactor": r"refactor|restructure|rename|extract|split|simplify|clean up|tidy|move|inline|dedup\w*|"
    r"deduplicate|reorgani[sz]e|moderni[sz]e|rewrite|convert|port|unify|decouple|merge",
    "performance": r"optimi[sz]e|speed up|profile|accelerate|benchmark|cache|reduce (?:the )?"
    r"(?:memory|latency|allocations)|make .{0,60}\bfaster",
    "security": r"harden|sanitise|sanitize|secure|encrypt|audit|escape|rotate",
    "upgrade": r"upgrade|bump|update (?:the )?(?:dependenc\w+|packages?|lockfile)|pin|migrate (?:to|from)",
    "review": r"review|critique|assess|look over|check the (?:diff|change|pull request|branch)",
    "question": r"explain|what|why|how|where|which|who|tell me|does|is|are|can|should|list|show me",
    "release": r"release|publish|deploy|ship|tag|package|set up (?:the )?(?:ci|pipeline)|dockeri[sz]e|"
    r"containeri[sz]e",
    "feature": r"add|implement|build|create|introduce|support|allow|enable|write|make|extend|design|develop|"
    r"provide|integrate|let|wire|expose|generate|show|display|sort|filter|remove|delete|drop|change|replace|"
    r"improve|update|use|adjust",
}
"""How a task begins, by its sort; the first sort whose words match."""

_NOUNS: dict[str, str] = {
    "docs": r"docs?|documentation|readmes?|docstrings?|changelogs?|tutorials?|guides?|comments|man ?pages?|"
    r"jsdoc|javadoc|user manual",
    "test": r"(?:unit |integration |e2e |regression |property |snapshot )?tests?|test suite|coverage|specs|"
    r"fixtures?|mocks?",
    "bugfix": r"bugs?|crash(?:es|ing|ed)?|regressions?|errors?|exceptions?|tracebacks?|stack ?traces?|fails?|"
    r"failing|failures?|broken|wrong|deadlocks?|race conditions?|leaks?|flaky|off[- ]by[- ]one|hangs?|"
    r"segfaults?|incorrect(?:ly)?|null pointers?|panics?|freez(?:es|ing)|typo|typos",
    "refactor": r"refactor(?:ing)?|duplication|duplicated|dead code|technical debt|code smells?|legacy",
    "performance": r"performance|slow(?:er|ly)?|latency|throughput|faster|n\+1|hot ?path|memory usage|"
    r"bottlenecks?|profiling",
    "security": r"security|vulnerabilit(?:y|ies)|xss|csrf|injection|cves?|secrets?|ssrf|"
    r"path traversal|privilege escalation|permissions? check",
    "upgrade": r"dependenc(?:y|ies)|lockfile|latest version|newest version|deprecat\w+|"
    r"(?:from|to) (?:python|node|django|react|java|go|rust|typescript|pydantic|rails|vue)\s*v?\d[\w.]*|"
    r"v\d+ to v\d+",
    "review": r"code review|pull request|this diff|the diff",
    "release": r"ci|pipeline|workflow|dockerfile|docker image|helm chart|wheel|release notes|deployment|"
    r"github actions?|kubernetes|terraform",
}
"""What a task is about, by its sort."""

_VERB, _NOUN = 3, 2
_BEFORE = re.compile(
    r"^\s*(?:(?:please|kindly|now|then|next|also|first|finally|just|and|can you|could you|would you|"
    r"will you|i(?:'d| would) like(?: you)? to|i (?:want|need)(?: you)? to|we (?:want|need|have) to|"
    r"let'?s|help me(?: to)?|go ahead and|try to|you (?:should|must)|it'?s time to)[,:]?\s+)+",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+|\n+|,?\s+(?:and|then)\s+(?=[a-z]+\b)")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_FIRST = {kind: re.compile(rf"(?:{words})\b", re.IGNORECASE) for kind, words in _VERBS.items()}
_ABOUT = {
    kind: re.compile(rf"(?<![\w.-])(?:{words})(?![\w-])", re.IGNORECASE) for kind, words in _NOUNS.items()
}
_OBJECT = re.compile(r"\s+(?:for|to|of|in|on|with|from|that|which|when|so|by|using)\b|[,(]")
"""Ends what a verb is about."""
KINDS = (
    "security",
    "bugfix",
    "performance",
    "upgrade",
    "docs",
    "test",
    "refactor",
    "review",
    "release",
    "question",
    "feature",
)
"""The sorts that there are, those that are preferred first when as much speaks for one as for another."""


def kind_of(task: str) -> str:
    """The sort of a task, one of `KINDS`; "" when nothing in it says.

    How its first sentence begins counts most, then what it is about; later sentences count less. Words
    are whole words, and code counts for nothing.
    """
    points = dict.fromkeys(KINDS, 0.0)
    text = _CODE.sub(" it ", task[:_LONGEST])
    sentences = [part for part in (piece.strip(" \t-*#>") for piece in _SENTENCE.split(text)) if part]
    for number, sentence in enumerate(sentences[:12]):
        share = 1.0 if number == 0 else 0.4
        begun = _BEFORE.sub("", sentence)
        verb = next((kind for kind, words in _FIRST.items() if words.match(begun)), "")
        if verb:
            points[_made(begun) if verb == "feature" else verb] += _VERB * share
        for kind, words in _ABOUT.items():
            found = {match[0].lower() for match in words.finditer(sentence)}
            points[kind] += _NOUN * share * min(len(found), 2)
    best = max(KINDS, key=lambda kind: points[kind])
    return best if points[best] > 0 else ""


def _made(sentence: str) -> str:
    """The sort of a task whose verb says nothing ("write", "add"): what is to be made or changed says it."""
    thing = _OBJECT.split(sentence, maxsplit=1)[0]
    return next((kind for kind in ("test", "docs", "release") if _ABOUT[kind].search(thing)), "feature")


def profile_for(task: str, profiles: tuple[ProfileSettings, ...]) -> ProfileSettings | None:
    """The profile that is meant for a task: the first one whose `kinds` name its sort or a word of it."""
    kind = kind_of(task)
    for profile in profiles:
        if kind and kind in (word.lower() for word in profile.kinds):
            return profile
    for profile in profiles:
        words = "|".join(re.escape(word) for word in profile.kinds if word.lower() not in KINDS)
        if words and re.search(rf"(?<!\w)(?:{words})(?!\w)", task[:_LONGEST], re.IGNORECASE):
            return profile
    return None
