"""What the next agent is told: nothing done twice, nothing half done passed over."""

from __future__ import annotations

import pytest

from relay.core.attempts import CUT_OFF
from relay.core.events import ToolKind, TurnOutcome
from relay.core.handover import NO_PLAN, attempts, do_not_redo, half_written, lasts, next_action
from tests.fakes.work import Work

LASTING = (
    "npm install",
    "npm ci",
    "pip -q install lark",
    "uv pip install lark",
    "python -m pip install lark",
    "cargo add serde",
    "go mod tidy",
    "yarn",
    "apt-get -y install jq",
    "alembic upgrade head",
    "python manage.py migrate",
    "bin/rails db:migrate",
    "git commit -m 'Add refunds'",
    "git -C sub commit -am x",
    "cd sub && git push",
    "gh pr create --fill",
    "mkdir -p src/new",
    "cd src && mv a.py b.py",
    "rm -rf build",
    "sed -i s/a/b/ file",
    "echo x >> notes.txt",
    "cat a b > c",
    "docker compose up -d",
    "kubectl apply -f deploy.yaml",
    "terraform apply",
    "rails generate model Refund",
    "curl -X POST http://127.0.0.1/orders",
    "psql -c 'alter table orders add column refunded bool'",
)
HARMLESS = (
    "ls -la",
    "cat README.md",
    "make test",
    "pytest -q 2>&1 | tail -5",
    "pytest -q > /dev/null",
    "go test ./...",
    "npm test",
    "npm run build",
    "git status",
    "git diff --stat",
    "git log --grep init",
    "grep -rn install docs",
    "docker ps",
    "kubectl get pods",
    "terraform plan",
    "python manage.py showmigrations",
    "npm install --dry-run",
    "python -c 'print(2 >= 1)'",
)


@pytest.mark.parametrize("command", LASTING)
def test_a_command_whose_effect_stays_is_not_run_again(command: str) -> None:
    assert lasts(command)
    assert any(command in line for line in do_not_redo(Work().shell(command).facts()))


@pytest.mark.parametrize("command", HARMLESS)
def test_a_command_that_changes_nothing_may_be_run_again(command: str) -> None:
    assert not lasts(command)
    assert do_not_redo(Work().shell(command).facts()) == ()


def test_done_tasks_come_first_then_commands_then_files() -> None:
    work = Work().edit("a.py", "b.py").shell("npm install").plan("x add the table", "  wire it")
    assert do_not_redo(work.facts()) == ("add the table", "Ran npm install (exit code 0)", "Wrote a.py, b.py")


def test_what_an_earlier_agent_finished_stays_finished() -> None:
    work = Work().plan("x add the table", "  wire it").next_agent().plan("x wire it", "  test it")
    assert do_not_redo(work.facts()) == ("add the table", "wire it")
    assert next_action(work.facts()) == "test it"


def test_a_task_that_is_open_again_may_be_redone() -> None:
    work = Work().plan("x add the table").plan("x wire it").plan("  add the table", "x wire it")
    assert do_not_redo(work.facts()) == ("wire it",)


def test_a_command_that_failed_or_was_cut_off_is_no_effect() -> None:
    work = Work().shell("npm install", exit_code=1, output="Error: offline")
    work.call(ToolKind.SHELL, command="alembic upgrade head")
    facts = work.ends(TurnOutcome.INTERRUPTED).facts()
    assert do_not_redo(facts) == ()
    assert [(a.what, a.why) for a in attempts(facts)] == [
        ("run npm install", "exit code 1: Error: offline"),
        ("run alembic upgrade head", CUT_OFF),
    ]


def test_what_worked_in_the_end_is_no_failure() -> None:
    work = Work().shell("npm install", exit_code=1).edit("a.py", ok=False, output="no match")
    work.shell("npm install").edit("a.py")
    facts = work.facts()
    assert attempts(facts) == ()
    assert do_not_redo(facts) == ("Ran npm install (exit code 0)", "Wrote a.py")


def test_many_files_are_named_on_few_short_lines() -> None:
    work = Work().edit(*(f"src/module_{number}.py" for number in range(100)))
    lines = do_not_redo(work.facts())
    assert len(lines) < 10
    assert max(map(len, lines)) < 300
    assert "src/module_99.py" in " ".join(lines)
    assert lines[-1].startswith("Wrote 60 more files")


def test_an_edit_under_way_is_named_by_its_file() -> None:
    work = Work()
    work.call(ToolKind.EDIT, paths=("a.py", "b.py"))
    work.call(ToolKind.SHELL, command="make")
    assert [path for path, _ in half_written(work.facts())] == ["a.py", "b.py"]
    assert [path for path, _ in half_written(work.ends(TurnOutcome.FAILED).facts())] == ["a.py", "b.py"]


NEXT = {
    "the item in progress": (Work().plan("  one", "~ two"), "two"),
    "the first open item": (Work().plan("x zero", "  one", "  two"), "one"),
    "what was announced": (Work().says("Done so far.\nNext: wire the route."), "wire the route."),
    "the plan before what was announced": (Work().plan("  one").says("Next: two"), "one"),
    "announced as a list": (Work().says("**Next steps:**\n1. wire the route\n2. test"), "wire the route"),
    "announced in a sentence": (Work().says("Next, I'll wire the route."), "wire the route."),
    "nothing": (Work().says("What should come next?"), NO_PLAN),
    "nothing left": (Work().plan("x one"), NO_PLAN),
}


@pytest.mark.parametrize(("work", "want"), NEXT.values(), ids=NEXT.keys())
def test_the_next_action_is(work: Work, want: str) -> None:
    assert next_action(work.facts()) == want
