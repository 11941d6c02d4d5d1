from __future__ import annotations

import json
import random
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from relay.core.redact import DEFAULT, MARKER, Redacted, Redactor
from tests.fakes.secrets import BEGIN_KEY, BY_ID, END_KEY, LOOKALIKES, SECRETS, Shape, pem, random_token

ids = {"ids": lambda shape: shape.id}


def test_every_kind_has_an_example_and_every_example_a_rule() -> None:
    assert {rule.kind for rule in DEFAULT.rules} == {shape.id for shape in SECRETS}
    assert (len(SECRETS), len(LOOKALIKES)) == (72, 36)


@pytest.mark.parametrize("shape", SECRETS, **ids)
@pytest.mark.parametrize(
    "around",
    [
        ("", ""),
        ("before ", " after"),
        ('{"text":"', '"}'),
        ("(", ")."),
        ("line one\n", "\nline three"),
        ("\\n", "\\nnext"),
        ("\x1b[32m", "\x1b[0m"),
        ("naïve → ", " ✓"),
        ("\U0001f511", "\U0001f511"),
        ("<", ">"),
        ("`", "`"),
    ],
    ids=[
        "alone",
        "words",
        "json",
        "brackets",
        "lines",
        "escaped",
        "colour",
        "latin",
        "emoji",
        "angle",
        "code",
    ],
)
def test_a_secret_is_replaced_and_the_text_around_it_kept(shape: Shape, around: tuple[str, str]) -> None:
    before, after = around
    want = Redacted(text=before + shape.scrubbed + after, counts={shape.id: 1})
    assert DEFAULT.redact(before + shape.text + after) == want


@pytest.mark.parametrize("shape", LOOKALIKES, **ids)
def test_a_lookalike_stays(shape: Shape) -> None:
    for text in (
        shape.text,
        f"before {shape.text} after",
        json.dumps({"text": shape.text}),
        f"{shape.text}\n" * 3,
    ):
        assert DEFAULT.redact(text) == Redacted(text=text)


@pytest.mark.parametrize("shape", SECRETS, **ids)
def test_a_json_line_stays_a_json_line(shape: Shape) -> None:
    for text in (shape.text, f"one\n{shape.text}\ttwo", f'say "{shape.text}" é\u2028', f"C:\\{shape.text}\\"):
        for ensure_ascii in (True, False):
            for escape_slashes in (True, False):
                line = json.dumps({"a": text, "n": 1}, ensure_ascii=ensure_ascii)
                line = line.replace("/", "\\/") if escape_slashes else line
                done = DEFAULT.redact(line)
                found = json.loads(done.text)
                assert found.keys() == {"a", "n"}
                assert shape.core not in found["a"]
                assert done.counts == {shape.id: 1}


@pytest.mark.parametrize("shape", SECRETS, **ids)
def test_a_nested_json_string_is_scrubbed(shape: Shape) -> None:
    inner = json.dumps({"output": f"first\n{shape.text}\nlast"})
    line = json.dumps({"content": inner})
    done = DEFAULT.redact(line)
    assert shape.core not in json.loads(json.loads(done.text)["content"])["output"]


def test_several_secrets_in_one_text_are_counted_by_kind() -> None:
    order = [*SECRETS, *SECRETS]
    random.Random(7).shuffle(order)
    done = DEFAULT.redact("\n".join(shape.text for shape in order))
    assert done.text == "\n".join(shape.scrubbed for shape in order)
    assert done.counts == {shape.id: 2 for shape in SECRETS}


def test_two_secrets_on_one_line() -> None:
    one, two = BY_ID["github_pat"].text, BY_ID["openrouter"].text
    assert DEFAULT.redact(f"a {one}, {two} b {one}") == Redacted(
        text="a [REDACTED:github_pat], [REDACTED:openrouter] b [REDACTED:github_pat]",
        counts={"github_pat": 2, "openrouter": 1},
    )


def test_a_named_vendor_token_keeps_the_vendors_kind() -> None:
    token = BY_ID["anthropic_api"].text
    done = DEFAULT.redact(f"export ANTHROPIC_API_KEY={token}")
    assert done == Redacted(
        text="export ANTHROPIC_API_KEY=[REDACTED:anthropic_api]", counts={"anthropic_api": 1}
    )


NAMED = [
    ("shell", "export DB_PASSWORD={}", True),
    ("env file", "STRIPE_SECRET_KEY = {}", True),
    ("yaml", "  api-key: {}", True),
    ("json", '{{"apiKey": "{}"}}', True),
    ("json in json", '{{\\"client_secret\\":\\"{}\\"}}', True),
    ("header", "X-Api-Key: {}", True),
    ("python with a type", 'TOKEN: str = "{}"', True),
    ("go", 'token := "{}"', True),
    ("ruby", "'secret' => '{}'", True),
    ("query", "GET /x?access_token={}&page=2", True),
    ("call", "connect(password='{}')", True),
    ("upper", "SECRET={}", True),
    ("a token's hash", "token_sha256: {}", False),
    ("no sign", "the token {} is old", False),
    ("plural", "tokens: {}", False),
    ("another word", "monkey={}", False),
    ("primary key", "primary_key: {}", False),
]


@pytest.mark.parametrize(("line", "want_gone"), [row[1:] for row in NAMED], ids=[row[0] for row in NAMED])
def test_a_random_value_beside_a_telling_name(line: str, want_gone: bool) -> None:
    value = random_token("", 32, seed=3)
    text = line.format(value)
    want = line.format("[REDACTED:env_assign]") if want_gone else text
    assert DEFAULT.redact(text).text == want


@pytest.mark.parametrize("line", ["TOKEN={}", 'TOKEN="{}"', "token: '{}',"])
def test_a_very_long_value_goes_whole(line: str) -> None:
    assert DEFAULT.redact(line.format(random_token("", 3000))).text == line.format("[REDACTED:env_assign]")


HARMLESS = [
    "token: ${{ secrets.GITHUB_TOKEN }}",
    "password: {{ vault_db_password }}",
    "password=%DB_PASSWORD%",
    "API_KEY=<your-api-key>",
    "api_key: your-api-key-goes-here",
    "api_key='changeme-changeme'",
    "secret = settings.SECRET_KEY_BASE",
    "token = await self.refreshAccessToken(user)",
    "token: AccessTokenProviderFactory;",
    "password = base64.b16encode(random_bytes)",
    "private_key = Ed25519PrivateKey.generate()",
    "key_id = '" + "AKIA" + "IOSFODNN7EXAMPLE'",
    "relay/core/x.py,sha256=r8" + "_DrqAfn6QLwQnmXEggveiSU-UaIL2p2nuPINelfFc,120",
    "token = request.headers['x-token-id']",
    "password: PasswordHasherConfiguration2",
    "token: src/auth/token_service_test.py:12",
    "secret: /run/secrets/db_password",
    "token=0123456789abcdef",
    "token: 123456789012345",
    "password=aaaaaaaaaaaaaaaaaaaaaaaa",
    '"password": "must be at least 12 characters1"',
    f"continuation_token: {UUID(int=0x63439E188F714042A735C1825330B655)}",
    "secret: sha256:cd0aa9856147b6c5b4ff2b7dfee5da20aa38253099ef1b4a64aced233c9afe29",
    "http://localhost:4748/api/state?x=@y",
    "postgres://user:${DB_PASSWORD}@host/db",
    "git@github.com:owner/name.git",
    "ssh://git@example.com:22/owner/name",
    "Authorization: Bearer YOUR_ACCESS_TOKEN_HERE_PLEASE",
    f'if key.startswith("{BEGIN_KEY}") and key.endswith("{END_KEY}"):',
    "-----BEGIN PUBLIC KEY-----\n" + "A1b2" * 16 + "\n-----END PUBLIC KEY-----",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_code_and_placeholders_beside_a_telling_name_stay(text: str) -> None:
    assert DEFAULT.redact(text) == Redacted(text=text)


def test_letters_before_a_prefix_make_it_a_word() -> None:
    for text in (f"x{BY_ID['github_pat'].text}", f"a{BY_ID['groq'].text}", f"9{BY_ID['npm'].text}"):
        assert DEFAULT.redact(text) == Redacted(text=text)


def test_a_url_encoded_token_is_found() -> None:
    assert DEFAULT.redact(f"u%3D{BY_ID['github_pat'].text}%26").text == "u%3D[REDACTED:github_pat]%26"


def test_an_escape_before_a_secret_stays_whole() -> None:
    bot = BY_ID["telegram_bot"].text
    for escape, letter in (
        ("\\u0039", "9"),
        ("\\u00e9", "é"),
        ("\\u003d", "="),
        ("\\t", "\t"),
        ("\\\\", "\\"),
    ):
        for size in (8, 9, 10):
            line = f'{{"a":"{escape}{bot[10 - size :]}"}}'
            assert json.loads(DEFAULT.redact(line).text) == {"a": f"{letter}[REDACTED:telegram_bot]"}


@pytest.mark.parametrize("label", ["RSA ", "EC ", "", "ENCRYPTED ", "OPENSSH ", "DSA "])
def test_private_keys_in_every_dress(label: str) -> None:
    key = pem(label)
    kind = "pem_openssh" if label == "OPENSSH " else "pem_rsa"
    numbered = "\n".join(f"{n:6}→{line}" for n, line in enumerate(key.split("\n"), 1))
    dressed = {
        "plain": key,
        "crlf": key.replace("\n", "\r\n"),
        "escaped": key.replace("\n", "\\n"),
        "escaped twice": key.replace("\n", "\\\\n"),
        "indented": key.replace("\n", "\n    "),
        "added in a diff": key.replace("\n", "\n+"),
        "quoted": key.replace("\n", "\n> "),
        "list of strings": key.replace("\n", '",\n  "'),
    }
    for name, text in dressed.items():
        assert DEFAULT.redact(f"a {text} b") == Redacted(text=f"a [REDACTED:{kind}] b", counts={kind: 1}), (
            name
        )
    assert DEFAULT.redact(numbered).text == f"     1→[REDACTED:{kind}]"


def test_a_private_key_whose_end_was_cut_off() -> None:
    cut = pem(lines=8)[:300]
    assert DEFAULT.redact(f"x {cut}").text == "x [REDACTED:pem_rsa]"
    assert (
        DEFAULT.redact(json.dumps({"a": cut, "b": "kept"})).text == '{"a": "[REDACTED:pem_rsa]", "b": "kept"}'
    )


def test_two_keys_are_two() -> None:
    text = f"{pem(seed=1)}\n{pem('EC ', seed=2)}\n"
    assert DEFAULT.redact(text) == Redacted(
        text="[REDACTED:pem_rsa]\n[REDACTED:pem_rsa]\n", counts={"pem_rsa": 2}
    )


def test_headers_inside_a_key_block_belong_to_it() -> None:
    head, rest = pem(lines=12).split("\n", 1)
    key = f"{head}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{'0A' * 16}\n\n{rest}"
    assert DEFAULT.redact(key).text == "[REDACTED:pem_rsa]"


FRAGMENTS = st.sampled_from(
    [shape.text for shape in (*SECRETS, *LOOKALIKES)]
    + [shape.core for shape in SECRETS]
    + [shape.core[: len(shape.core) // 2] for shape in SECRETS]
    + [
        "[REDACTED:github_pat]",
        "[REDACTED:env_assign]",
        "[REDACTED:",
        "token=",
        'secret: "',
        "password=",
        "://u:",
    ]
    + [
        "@",
        " ",
        "\n",
        '"',
        "'",
        "\\n",
        "\\u0041",
        "-",
        "_",
        ".",
        "=",
        ":",
        "/",
        "\\/",
        ",",
        "Authorization: Bearer ",
    ]
)
TEXTS = st.lists(FRAGMENTS | st.text(max_size=8), max_size=12).map("".join)


@given(TEXTS)
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = DEFAULT.redact(text)
    assert DEFAULT.redact(once.text) == Redacted(text=once.text)
    assert sum(once.counts.values()) >= len(MARKER.findall(once.text)) - len(MARKER.findall(text))


@given(TEXTS)
def test_clean_is_what_redacting_does_not_change(text: str) -> None:
    assert DEFAULT.is_clean(text) == (DEFAULT.redact(text).text == text)


@given(st.dictionaries(st.text(max_size=12), TEXTS, max_size=4))
def test_any_json_line_stays_valid(value: dict[str, str]) -> None:
    done = DEFAULT.redact(json.dumps(value))
    assert isinstance(json.loads(done.text), dict)


@given(st.text())
def test_arbitrary_text_passes_through_unharmed(text: str) -> None:
    assert DEFAULT.redact(text).text == text


def test_a_redactor_of_some_rules_knows_only_those() -> None:
    some = Redactor(rules=tuple(rule for rule in DEFAULT.rules if rule.kind == "npm"))
    both = f"{BY_ID['npm'].text} {BY_ID['groq'].text}"
    assert some.redact(both).text == f"[REDACTED:npm] {BY_ID['groq'].text}"
    assert evolve(some, rules=DEFAULT.rules).redact(both).text == "[REDACTED:npm] [REDACTED:groq]"
