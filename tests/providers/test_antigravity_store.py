"""What is readable of Antigravity's conversations. The files are written from public descriptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.core.events import TaskStatus
from relay.core.intel import Depth
from relay.providers.antigravity_store import AntigravityStore
from relay.providers.store_protocol import RunningProcess
from tests.fakes.lifting import found, lifted, machine, the_one, told
from tests.fakes.recorded import differing, shown

STORE = AntigravityStore()
ID = "0a1b2c3d-0000-4000-8000-000000000001"
TASK = """# Refund flow

- [x] Read the orders service <!-- id: 0 -->
- [/] Write the endpoint
    - [ ] Validate the amount
* [ ] Test it
- [not an item
"""


def put(tmp_path: Path, **files: str) -> Path:
    """A conversation's folder; in names `__` stands for a slash and `_dot_` for a dot."""
    for name, words in files.items():
        path = tmp_path / "home" / ".gemini" / "antigravity" / name.replace("__", "/").replace("_dot_", ".")
        path = Path(str(path).replace("<id>", ID))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(words)
    return tmp_path / "home"


def brain(tmp_path: Path, **files: str) -> Path:
    return put(tmp_path, **{f"brain__<id>__{name}": words for name, words in files.items()})


def log(tmp_path: Path, *steps: dict[str, Any]) -> Path:
    text = "".join(json.dumps(step) + "\n" for step in steps)
    return brain(tmp_path, _dot_system_generated__logs__transcript_dot_jsonl=text)


def test_the_task_list_is_the_plan(tmp_path: Path) -> None:
    home = brain(tmp_path, task_dot_md=TASK, walkthrough_dot_md="Decision: refunds are keyed by order id.\n")

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        assert [(item.text, item.status) for item in intel.plan] == [
            ("Read the orders service", TaskStatus.COMPLETED),
            ("Write the endpoint", TaskStatus.IN_PROGRESS),
            ("Validate the amount", TaskStatus.PENDING),
            ("Test it", TaskStatus.PENDING),
        ]
        assert (intel.native_id, intel.title) == (ID, "Refund flow")
        assert intel.last_activity is not None
    assert the_one(STORE, machine(home)).decisions == ("refunds are keyed by order id.",)


def test_a_conversation_that_is_not_readable_is_there_at_its_time(tmp_path: Path) -> None:
    home = put(tmp_path, **{"conversations__<id>_dot_pb": "\x01\x02 encrypted"})

    intel = the_one(STORE, machine(home))

    assert (intel.native_id, intel.message_count, intel.first_prompt) == (ID, 0, "")
    assert intel.last_activity is not None


def test_files_that_were_named_before_the_folder_was_told_lie_in_it(tmp_path: Path) -> None:
    def called(name: str, **args: str) -> dict[str, Any]:
        return {
            "type": "PLANNER_RESPONSE",
            "step_index": len(name),
            "tool_calls": [{"name": name, "args": args}],
        }

    home = log(
        tmp_path,
        {"type": "USER_INPUT", "content": "<USER_REQUEST>Add refunds</USER_REQUEST>"},
        called("view_file", AbsolutePath="/w/shop/README.md"),
        called("replace_file_content", TargetFile="/w/shop/src/refund.py"),
        called("run_command", CommandLine="pytest", Cwd="/w/shop"),
    )

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        assert (intel.cwd, intel.files_changed, intel.files_outside) == ("/w/shop", ("src/refund.py",), ())
    assert the_one(STORE, machine(home)).files_read == ("README.md",)


def test_a_conversation_and_its_brain_are_one(tmp_path: Path) -> None:
    put(tmp_path, **{"conversations__<id>_dot_pb": "x"})
    home = brain(tmp_path, task_dot_md=TASK)

    assert the_one(STORE, machine(home)).title == "Refund flow"


def test_the_steps_of_a_log(tmp_path: Path) -> None:
    beside = "<ADDITIONAL_METADATA>x</ADDITIONAL_METADATA>"
    asked = f"<USER_REQUEST>\nNever use tabs. Add it\n</USER_REQUEST>\n{beside}"
    calls = [
        {"name": "run_command", "args": {"CommandLine": "ls", "Cwd": "/w/app"}},
        {"name": "replace_file_content", "args": {"TargetFile": '"/w/app/a.py"'}},
        {"name": "view_file", "args": {"AbsolutePath": "/w/app/b.py"}},
    ]
    home = log(
        tmp_path,
        {"step_index": 0, "source": "USER_EXPLICIT", "type": "USER_INPUT", "content": asked},
        {"step_index": 1, "source": "MODEL", "type": "PLANNER_RESPONSE", "content": "", "tool_calls": calls},
        {"step_index": 2, "source": "SYSTEM", "type": "GENERIC", "content": "output"},
        {"step_index": 3, "source": "MODEL", "type": "PLANNER_RESPONSE", "content": "Added."},
    )

    expected = {
        "first_prompt": "Never use tabs. Add it",
        "rules": ("Never use tabs.",),
        "files_changed": ("a.py",),
        "files_read": ("b.py",),
        "cwd": "/w/app",
        "last_message": "Added.",
        "turn_open": False,
        "commands": (),
        "cut_off": (),
    }
    assert differing(the_one(STORE, machine(home)), expected) == {}
    full, listed = (lifted(STORE, machine(home), depth) for depth in (Depth.FULL, Depth.LIST))
    assert [told(each) for each in full] == [told(each) for each in listed]


def test_a_task_that_is_done_changes_the_stamp(tmp_path: Path) -> None:
    home = brain(tmp_path, task_dot_md=TASK)
    [before] = found(STORE, machine(home))
    brain(tmp_path, task_dot_md=TASK.replace("[/]", "[x]") + "\n")
    [after] = found(STORE, machine(home))

    assert before.stamp != after.stamp


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200), cut=st.integers(0, 400))
def test_damage_ends_nothing(data: bytes, cut: int, tmp_path: Path) -> None:
    home = log(tmp_path, {"type": "USER_INPUT", "content": "Go"}, {"type": 1, "tool_calls": [3]})
    path = next(home.rglob("transcript.jsonl"))
    path.write_bytes(path.read_bytes() + data[:cut] + b"\n")
    brain(tmp_path, task_dot_md=TASK)
    task = next(home.rglob("task.md"))
    task.write_bytes(task.read_bytes() + b"\n" + data)

    for depth in Depth:
        intel = the_one(STORE, machine(home), depth)
        assert intel.first_prompt == "Go"
        assert len(intel.plan) >= 4
    assert "user: Go" in shown(the_one(STORE, machine(home)), "said")


def test_homes(tmp_path: Path) -> None:
    where = machine(tmp_path, accounts={"antigravity": ("/b/ag/",)})

    assert STORE.homes(where) == (f"{tmp_path}/.gemini/antigravity", "/b/ag")


def test_an_open_editor_is_no_agent_at_work() -> None:
    argv = ("/usr/share/antigravity/antigravity", ".")

    assert not STORE.runs(RunningProcess(pid=1, name="antigravity", argv=argv))


def test_nothing_resumes_it_on_the_command_line() -> None:
    assert STORE.resume_argv(ID) == ()
