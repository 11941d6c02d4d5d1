from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from relay.providers.claude import Claude, slug_of
from relay.providers.protocol import Account, LaunchSpec
from relay.providers.table import provider_named
from tests.fakes.claude import request


def child_environment(spec: LaunchSpec, daemons: dict[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in daemons.items()
        if not any(fnmatchcase(name, pattern) for pattern in spec.unset)
    }
    return {**kept, **spec.env}


class TestLaunch:
    def test_it_is_a_two_way_stream_that_asks_relay_for_permission(self) -> None:
        spec = Claude().launch(request())
        assert spec.two_way
        assert spec.argv == (
            "claude",
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-prompt-tool",
            "stdio",
            "--permission-mode",
            "default",
            "--disallowedTools",
            "EnterWorktree",
        )

    @pytest.mark.parametrize("allow", ["ask", "edits", "all"])
    def test_permissions_are_never_skipped_by_the_cli(self, allow: str) -> None:
        argv = Claude().launch(request(allow=allow)).argv
        assert not [word for word in argv if "skip" in word or "bypass" in word]

    def test_the_prompt_is_no_argument(self) -> None:
        prompt = "x" * 1_000_000
        assert prompt not in Claude().launch(request(prompt=prompt)).argv

    def test_a_resumed_session_takes_new_system_prompts(self) -> None:
        argv = Claude().launch(request(native_id="S", model="opus", args=("--effort", "high"))).argv
        assert argv[-8:] == (
            "--model",
            "opus",
            "--resume",
            "S",
            "--system-prompt-snapshot",
            "off",
            "--effort",
            "high",
        )

    def test_the_program_may_be_another(self) -> None:
        assert Claude().launch(request(command="/opt/claude")).argv[0] == "/opt/claude"

    def test_the_table_knows_it(self) -> None:
        assert isinstance(provider_named("claude"), Claude)


class TestEnvironment:
    def test_an_outer_claude_leaves_nothing_behind(self) -> None:
        outer = {
            "AI_AGENT": "claude-code",
            "CLAUDECODE": "1",
            "CLAUDE_CODE_CHILD_SESSION": "1",
            "CLAUDE_CODE_ENTRYPOINT": "cli",
            "CLAUDE_CODE_EXECPATH": "/x",
            "CLAUDE_CODE_MESSAGING_SOCKET": "/x",
            "CLAUDE_CODE_MESSAGING_TOKEN": "x",
            "CLAUDE_CODE_SESSION_ID": "x",
            "CLAUDE_EFFORT": "medium",
            "CLAUDE_PID": "1",
        }
        env = child_environment(Claude().launch(request()), outer)
        assert not set(env) & set(outer)

    def test_the_users_own_settings_stay(self) -> None:
        users = {
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": "http://gateway",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "1000",
            "CLAUDE_CODE_OAUTH_TOKEN": "t",
            "CLAUDE_CODE_USE_BEDROCK": "1",
            "CLAUDE_CONFIG_DIR": "/home/u/.claude-work",
            "PATH": "/bin",
        }
        env = child_environment(Claude().launch(request()), users)
        assert users.items() <= env.items()

    def test_an_account_with_a_folder_is_not_overruled_by_the_daemons_keys(self) -> None:
        account = Account(label="work", config_dir="/accounts/work")
        daemons = {
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_AUTH_TOKEN": "k",
            "CLAUDE_CODE_OAUTH_TOKEN": "t",
            "CLAUDE_CODE_USE_BEDROCK": "1",
            "CLAUDE_CONFIG_DIR": "/home/u/.claude",
        }
        env = child_environment(Claude().launch(request(account=account)), daemons)
        assert env["CLAUDE_CONFIG_DIR"] == "/accounts/work"
        assert env["CLAUDE_CODE_USE_BEDROCK"] == "1"
        assert not {name for name in env if "KEY" in name or "TOKEN" in name}

    def test_an_account_may_bring_its_own_key(self) -> None:
        account = Account(config_dir="/a", env={"CLAUDE_CODE_OAUTH_TOKEN": "mine"})
        env = child_environment(
            Claude().launch(request(account=account)), {"CLAUDE_CODE_OAUTH_TOKEN": "daemon's"}
        )
        assert env["CLAUDE_CODE_OAUTH_TOKEN"] == "mine"

    def test_the_nearer_setting_wins(self) -> None:
        account = Account(env={"A": "account", "B": "account"})
        spec = Claude().launch(
            request(account=account, env={"A": "config", "C": "config", "DISABLE_AUTOUPDATER": "0"})
        )
        assert [spec.env[name] for name in "ABC"] == ["account", "account", "config"]
        assert spec.env["DISABLE_AUTOUPDATER"] == "0"

    def test_it_neither_updates_itself_nor_works_on_in_the_background(self) -> None:
        env = Claude().launch(request()).env
        assert env == {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}

    def test_the_base_url_may_be_another(self) -> None:
        env = Claude().launch(request(base_url="http://127.0.0.1:1/s/text")).env
        assert env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1/s/text"


class TestResumeFiles:
    @pytest.mark.parametrize(
        ("cwd", "want"),
        [
            ("/home/dev/work/my_app.v2 \u00e9t\u00e9", "-home-dev-work-my-app-v2--t-"),
            ("/w/\U0001f680", "-w---"),
            ("/" + "a" * 199, "-" + "a" * 199),
            ("/" + "a" * 200, "-" + "a" * 199 + "-*"),
        ],
    )
    def test_the_folder_is_named_as_claude_code_names_it(self, cwd: str, want: str) -> None:
        assert slug_of(cwd) == want

    def test_transcript_subagents_and_tasks_and_no_secret(self, tmp_path: Path) -> None:
        own = {
            "projects/-w-a-b/S1.jsonl",
            "projects/-w-a-b/S1/subagents/agent-1.jsonl",
            "tasks/S1/1.json",
        }
        others = {
            ".credentials.json",
            "projects/-w-a-b/S2.jsonl",
            "projects/-w/S1.jsonl",
            "tasks/S1/.lock",
            "tasks/S1/1234.key",
            "tasks/S2/1.json",
            "sessions/1234.json",
        }
        for name in own | others:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        files = Claude().resume_files("S1", "/w/a.b")
        assert files is not None
        found = [path for pattern in files.globs for path in tmp_path.glob(pattern) if path.is_file()]
        kept = [path for path in found if not any(fnmatchcase(path.name, never) for never in files.never)]
        assert sorted(str(path.relative_to(tmp_path)) for path in kept) == sorted(own)

    @pytest.mark.parametrize("native_id", ["", "../x", "a/b", "*", "a b", "x" * 65])
    def test_an_id_that_is_none_has_no_files(self, native_id: str) -> None:
        assert Claude().resume_files(native_id, "/w") is None


def test_it_is_stopped_politely_first() -> None:
    assert [(step.signal, step.group) for step in Claude().stop_steps] == [("INT", False), ("TERM", True)]
