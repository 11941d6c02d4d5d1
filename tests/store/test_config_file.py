from __future__ import annotations

import hashlib
import os
import tomllib
from pathlib import Path

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from relay.core.config import Config
from relay.errors import ConfigError, NotAllowedError, RelayError, StoreError
from relay.store.config_file import MAX_BYTES, load, load_effective, load_user
from relay.store.toml_lines import key_lines, line_of
from relay.store.user_config import user_config_dir

KNOWN = ("claude", "codex")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".relay").mkdir(parents=True)
    return tmp_path / "repo"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    return tmp_path / "config"


def write(folder: Path, text: str) -> Path:
    path = folder / "relay.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return path


def refusal(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load(path)
    return caught.value.message


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    got = load(tmp_path / "relay.toml")
    assert (got.config, got.present, got.sha256) == (Config(), False, "")


def test_a_file_is_read_with_the_hash_of_its_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, '[providers.codex.accounts.w]\nconfig_dir = "~/w"\n')
    got = load(path, home="/home/me")
    assert got.config.provider("codex").accounts[0].config_dir == "/home/me/w"
    assert (got.present, got.sha256) == (True, hashlib.sha256(path.read_bytes()).hexdigest())


def test_a_leading_tilde_is_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    got = load(write(tmp_path, '[providers.codex.accounts.w]\nconfig_dir = "~/w"\n'))
    assert got.config.provider("codex").accounts[0].config_dir == "/home/somebody/w"


SYNTAX = {
    "no value": (b"[relay]\nserver_port =\n", ":2:14: not valid TOML: invalid value"),
    "a key twice": (b"[relay]\nmax_handoffs = 1\nmax_handoffs = 2\n", ":3:"),
    "a string that does not end": (
        b'[relay]\nchain = ["claude\n',
        ":2:17: not valid TOML: a text is not closed",
    ),
    "a list that does not end": (b'[relay]\nchain = ["claude"\n\n', ":2:18: not valid TOML: unclosed array"),
    "another encoding": (b"[relay]\n# caf\xe9\n", ":2:6: byte 0xe9 is not UTF-8"),
    "a number without end": (b"[relay]\nserver_port = " + b"9" * 5000, ": a number in it is too long"),
    "a list in a list in a list": (b"a = " + b"[" * 100_000, ": a number in it is too long, or it is nested"),
    "something else": (b"\x00\x01\x02", ":1:1: not valid TOML"),
}


@pytest.mark.parametrize(("data", "want"), SYNTAX.values(), ids=SYNTAX)
def test_what_is_no_toml_is_refused_with_line_and_column(tmp_path: Path, data: bytes, want: str) -> None:
    path = tmp_path / "relay.toml"
    assert refusal(path, data).startswith(f"{path}{want}")


def test_a_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    message = refusal(
        path,
        b"# one\n[relay]\nserver_port = 1\n\nhandof_threshold = 1\n[verify]\n"
        b'commands = [\n  "a", # ]\n  3,\n]\n'
        b'[providers."codex"]\nenv = { A = 1 }\n',
    )
    assert message.split("\n") == [
        f'{path}:5: [relay] unknown key "handof_threshold"; did you mean "handoff_threshold"?',
        f"{path}:7: [verify] commands[2] = 3: must be text, in quotes",
        f"{path}:12: [providers.codex] env.A: must be text, in quotes",
    ]


def test_a_byte_order_mark_and_crlf_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    path.write_bytes(b"\xef\xbb\xbf[relay]\r\nmax_handoffs = 1\r\n")
    assert load(path).config.relay.max_handoffs == 1


def test_a_link_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "")
    (tmp_path / "link.toml").symlink_to(tmp_path / "relay.toml")
    with pytest.raises(StoreError, match="symbolic link"):
        load(tmp_path / "link.toml")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "relay.toml"
    path.write_bytes(b"#" * MAX_BYTES)
    assert load(path).present
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(StoreError, match="too large"):
        load(path)


@pytest.mark.skipif(os.name == "nt", reason="no FIFOs")
def test_a_fifo_holds_up_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "relay.toml")
    with pytest.raises(StoreError, match="not a regular file"):
        load(tmp_path / "relay.toml")


class TestTheTwoFiles:
    def test_the_repositorys_wins_key_by_key(self, repo: Path, mine: Path) -> None:
        write(mine, '[relay]\nmax_handoffs = 3\nserver_port = 5000\n[verify]\ncommands = ["mine"]\n')
        write(repo / ".relay", "[relay]\nserver_port = 6000\n")
        got = load_effective(repo, mine, known=KNOWN)
        assert (got.config.relay.max_handoffs, got.config.relay.server_port) == (3, 6000)
        assert got.config.verify.commands == ("mine",)

    def test_ones_own_file_needs_no_trust(self, repo: Path, mine: Path) -> None:
        write(mine, '[verify]\ncommands = ["mine"]\n')
        got = load_effective(repo, mine)
        assert got.needs_trust == ()
        assert got.loaded_repo is not None
        assert not got.loaded_repo.present

    def test_what_the_repositorys_could_run_needs_trust(self, repo: Path, mine: Path) -> None:
        write(mine, '[approvals]\nallow = "ask"\n')
        path = write(repo / ".relay", '[verify]\ncommands = ["theirs"]\n[approvals]\nallow = "edits"\n')
        got = load_effective(repo, mine)
        assert got.needs_trust == (
            '[verify] commands = "theirs"',
            '[approvals] allow = "edits" (your own file says "ask")',
        )
        assert got.loaded_repo is not None
        assert got.loaded_repo.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()

    def test_an_argument_for_a_program_of_ones_own_needs_trust(self, repo: Path, mine: Path) -> None:
        write(mine, '[providers.mine]\nkind = "acp"\ncommand = "mine"\n')
        write(repo / ".relay", '[providers.mine]\nargs = ["--run", "x"]\n')
        got = load_effective(repo, mine, known=KNOWN)
        assert got.needs_trust == ('[providers.mine] args = ["--run", "x"]',)
        assert (got.config.provider("mine").command, got.config.provider("mine").args) == (
            "mine",
            ("--run", "x"),
        )

    def test_outside_of_a_repository_ones_own_holds(self, mine: Path) -> None:
        write(mine, "[relay]\nmax_handoffs = 3\n")
        got = load_effective(None, mine)
        assert (got.config.relay.max_handoffs, got.loaded_repo) == (3, None)

    def test_without_either_the_defaults_hold(self, tmp_path: Path) -> None:
        (tmp_path / "bare").mkdir()
        assert load_effective(tmp_path / "bare", tmp_path / "none").config == Config()

    def test_an_unknown_provider_is_told_of_the_file_it_is_in(self, repo: Path, mine: Path) -> None:
        path = write(repo / ".relay", "[providers.cluade]\nenabled = true\n")
        with pytest.raises(ConfigError) as caught:
            load_effective(repo, mine, known=KNOWN)
        assert caught.value.message.startswith(
            f"{path}:1: [providers.cluade] no provider cluade; did you mean"
        )

    def test_a_link_in_the_repository_is_refused(self, repo: Path, mine: Path, tmp_path: Path) -> None:
        elsewhere = write(tmp_path, '[verify]\ncommands = ["x"]\n')
        (repo / ".relay" / "relay.toml").symlink_to(elsewhere)
        with pytest.raises(StoreError, match="symbolic link"):
            load_effective(repo, mine)

    def test_a_folder_that_is_a_link_is_refused(self, tmp_path: Path, mine: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "bare").mkdir()
        (tmp_path / "bare" / ".relay").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StoreError, match="symbolic link"):
            load_effective(tmp_path / "bare", mine)

    def test_ones_own_file_may_be_a_link(self, mine: Path, tmp_path: Path) -> None:
        (mine / "relay.toml").symlink_to(write(tmp_path, "[relay]\nmax_handoffs = 3\n"))
        assert load_user(mine).config.relay.max_handoffs == 3

    @pytest.mark.skipif(os.name == "nt", reason="no modes")
    def test_ones_own_file_that_anyone_can_change_is_refused(self, mine: Path) -> None:
        path = write(mine, "")
        path.chmod(0o666)
        with pytest.raises(NotAllowedError) as caught:
            load_user(mine)
        assert "can be changed by anyone" in caught.value.message
        assert str(path) in caught.value.hint


def test_the_folder_of_ones_own_file_can_be_named(tmp_path: Path) -> None:
    assert user_config_dir({"RELAY_CONFIG_DIR": str(tmp_path)}) == tmp_path
    assert user_config_dir({}).name == "relay"
    with pytest.raises(RelayError, match="relative path"):
        user_config_dir({"RELAY_CONFIG_DIR": "here"})


LINES = {
    "sections and keys": (
        "[a]\nb = 1\n\n[c.d]\ne = 2",
        {("a",): 1, ("a", "b"): 2, ("c", "d"): 4, ("c", "d", "e"): 5},
    ),
    "quoted and dotted keys": (
        '"a b".\'c.d\' . e = 1\n["x\\u0041" . y]\n',
        {("a b",): 1, ("a b", "c.d", "e"): 1, ("xA", "y"): 2},
    ),
    "what looks like keys in texts": (
        'a = """\nb = 1\n[c]\\"""\n"""\nd = \'\'\'\ne = 1\n\'\'\'\nf = "[g]#"',
        {("a",): 1, ("d",): 5, ("f",): 8},
    ),
    "lists over lines, comments with brackets": (
        'a = [ # ]]\n  "]", # [\n  [1]\n]\nb = 2',
        {("a",): 1, ("b",): 5},
    ),
    "a section after those within it": ("[a.b]\n[a]\nc = 1", {("a", "b"): 1, ("a",): 2, ("a", "c"): 3}),
    "line ends of Windows": ("[a]\r\n\r\nb = 1\r\n", {("a",): 1, ("a", "b"): 3}),
    "quotes at the end of a long text": (
        "a = \"\"\"x\"\"\"\"\"\nb = ''''y''''\nc = 1",
        {("a",): 1, ("b",): 2, ("c",): 3},
    ),
    "an empty text": ('a = ""\nb = """"""\nc = \'\'', {("a",): 1, ("b",): 2, ("c",): 3}),
}


@pytest.mark.parametrize(("text", "want"), LINES.values(), ids=LINES)
def test_keys_are_found_on_their_lines(text: str, want: dict[tuple[str, ...], int]) -> None:
    tomllib.loads(text)
    lines = key_lines(text)
    assert {path: line for path, line in lines.items() if path in want} == want
    assert set(lines.values()) == set(want.values())


def test_a_part_without_a_line_of_its_own_has_that_of_what_is_around_it() -> None:
    lines = {("a",): 1, ("a", "b"): 2}
    assert [line_of(lines, path) for path in (("a", "b", "c"), ("a", "x"), ("y",), ())] == [2, 1, None, None]


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=12)
_DOCUMENT = st.dictionaries(
    _TEXT,
    st.recursive(
        st.integers(0, 9) | st.booleans() | _TEXT | st.lists(_TEXT, max_size=3),
        lambda inner: st.dictionaries(_TEXT, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@given(_DOCUMENT)
def test_in_any_file_each_key_is_found_where_it_stands(document: dict[str, object]) -> None:
    text = tomlkit.dumps(document)
    assert tomllib.loads(text) == document
    lines, rows = key_lines(text), text.split("\n")

    def look(table: dict[str, object], at: tuple[str, ...]) -> None:
        for name, value in table.items():
            path = (*at, name)
            assert path in lines
            row = rows[lines[path] - 1]
            if isinstance(value, dict):
                assert row.startswith("[")
                look(value, path)
            else:
                assert {name: value}.items() <= _row(row, rows, lines[path]).items()

    look(document, ())


def _row(row: str, rows: list[str], line: int) -> dict[str, object]:
    for end in range(line, len(rows) + 1):
        try:
            return tomllib.loads("\n".join(rows[line - 1 : end]))
        except tomllib.TOMLDecodeError:
            continue
    raise AssertionError(f"no key begins at {row!r}")


@given(st.text(st.sampled_from("[]{}\"'\\\n#=., ab"), max_size=60))
def test_a_text_that_is_no_toml_is_scanned_to_an_end(text: str) -> None:
    assert all(1 <= line <= text.count("\n") + 1 for line in key_lines(text).values())
