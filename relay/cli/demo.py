"""`relay demo`: a whole handoff on a throw-away repository, with two scripted agents as real processes.

It runs a daemon of its own, with a state folder of its own, so that nothing of the user's is touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from relay.cli.client import Client, Where
from relay.errors import RelayError

GOAL = "Add a temperature converter with a command line, tests and documentation"
VERIFY = f"{sys.executable} -B -m unittest -q"
CONFIG = """\
[relay]
chain = ["scripted/first", "scripted/second"]

[providers.scripted.accounts.first]
active = true
env = { SCRIPTED_SCENARIO = "demo-first" }

[providers.scripted.accounts.second]
env = { SCRIPTED_SCENARIO = "demo-second" }
"""
READY_SECONDS = 20.0
DEMO_SECONDS = 60.0
POLL_SECONDS = 0.05
"""Between two looks at the events: they are paged over HTTP, which has no way to wait for the next."""
LAST_STATES = ("COMPLETED", "FAILED", "STOPPED", "WAITING")


@click.command()
@click.option("--clean-up", is_flag=True, help="Remove the demo's folder at the end.")
def demo(clean_up: bool) -> None:
    """Show a whole handoff on a throw-away repository: no key and no agent needed."""
    folder = Path(tempfile.mkdtemp(prefix="relay-demo-"))
    try:
        ended_well = _play(folder, kept=not clean_up)
    finally:
        if clean_up:
            shutil.rmtree(folder, ignore_errors=True)
    if not clean_up:
        click.echo(f"\nEverything is in {folder}; remove it when you have looked around.")
    sys.exit(0 if ended_well else 1)


def _play(folder: Path, *, kept: bool) -> bool:
    repository = _repository(folder / "project")
    environment = {
        **os.environ,
        "RELAY_STATE_DIR": str(folder / "state"),
        "RELAY_CONFIG_DIR": str(folder / "config"),
    }
    daemon = subprocess.Popen(
        [sys.executable, "-m", "relay", "daemon", "--port", "0"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        client = _client(daemon, folder / "state")
        subprocess.run(
            [sys.executable, "-m", "relay", "trust", "--yes"],
            env=environment,
            cwd=repository,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        body = {"task": GOAL, "cwd": str(repository), "verify": [VERIFY]}
        sid = client.post("/api/sessions", body)["sessionId"]
        click.echo(f"repository  {repository}\ntask        {GOAL}\nverify      {VERIFY}\n")
        begun: datetime | None = None
        shown = ""
        for event in _events(client, sid):
            at = datetime.fromisoformat(event["ts"])
            begun = begun or at
            line = describe(event)
            if line and line != shown:
                click.echo(f"{(at - begun).total_seconds() * 1000:>6.0f} ms  {line}")
                shown = line
        return _conclude(client, sid, kept=kept)
    finally:
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()


def _repository(root: Path) -> Path:
    root.mkdir()
    quiet: dict[str, Any] = {"cwd": root, "check": True, "stdout": subprocess.DEVNULL}
    subprocess.run(["git", "init", "-q", "-b", "main"], **quiet)
    (root / "README.md").write_text("# Converter\n\nA small project for the demo.\n")
    (root / ".relay").mkdir(mode=0o700)
    (root / ".relay" / "relay.toml").write_text(CONFIG)
    who = ["-c", "user.name=Demo", "-c", "user.email=demo@example.invalid", "-c", "commit.gpgSign=false"]
    subprocess.run(["git", "add", "README.md"], **quiet)
    subprocess.run(["git", *who, "commit", "-q", "-m", "Begin"], **quiet)
    return root


def _client(daemon: subprocess.Popen[str], state: Path) -> Client:
    assert daemon.stdout is not None
    for line in daemon.stdout:
        if line.startswith("listening on "):
            url = line.removeprefix("listening on ").strip()
            return Client(Where(url=url, token=(state / "token").read_text().strip()))
    raise RelayError("the demo's daemon did not start", hint=f"its log is in {state / 'log'}")


def _events(client: Client, sid: str) -> Iterator[Mapping[str, Any]]:
    """The session's events up to the one that ends it, or that makes it wait."""
    after = 0
    deadline = time.monotonic() + DEMO_SECONDS
    while time.monotonic() < deadline:
        over = False
        for event in client.get(f"/api/sessions/{sid}/events", after=str(after)):
            after = event["seq"]
            over = over or (event["type"] == "fsm" and event["data"]["to"] in LAST_STATES)
            yield event
        if over:
            return
        time.sleep(POLL_SECONDS)
    raise RelayError("the demo did not end in time")


def describe(event: Mapping[str, Any]) -> str:
    """One line of the timeline, or "" for an event that would only make it longer."""
    data = event["data"]
    match event["type"], data.get("kind"):
        case "fsm", _:
            target = f"  {data['target']}" if data.get("target") else ""
            before = f"{data['from']} -> " if data["from"] else ""
            return click.style(f"{before}{data['to']}{target}", bold=True)
        case "agent_event", "text":
            return f"  {data['target']}  says: {data['text'].strip()[:100]}"
        case "agent_event", "tool_call":
            what = data.get("command") or ", ".join(data.get("paths", ())) or data.get("detail", "")
            return f"  {data['target']}  {data.get('toolKind', 'tool')}: {what[:100]}"
        case "agent_event", "plan":
            done = sum(item.get("status") == "completed" for item in data["items"])
            return f"  {data['target']}  plan: {done} of {len(data['items'])} done"
        case "failure", _:
            return click.style(f"  {data['target']}  {data['class']}: {data['text'][:90]}", fg="yellow")
        case "snapshot", _:
            return f"  snapshot {data['commit'][:10]}: {data['diffStat'] or 'no change'}"
        case "contract", _:
            return f"  contract {data['id']} signed"
        case "dispatched", _:
            return f"  run {data['run']}: {data['target']} started (pid {data['pid']})"
        case "verify", _:
            words = "passed" if data["passed"] else "failed"
            return click.style(f"  verify {words}", fg="green" if data["passed"] else "red")
    return ""


def _conclude(client: Client, sid: str, *, kept: bool) -> bool:
    session = client.get(f"/api/sessions/{sid}")
    work = client.get(f"/api/sessions/{sid}/diff")
    contract = client.get("/api/contract", session=sid)
    verdict = client.get("/api/audit/verify", session=sid)
    # A path that is about to be removed leads nowhere.
    shown = contract["path"] if kept else contract["contract"]["contractId"]
    click.echo(
        f"\nended       {session['fsmState']}: {session['endReason']}\n"
        f"branch      {session['branch']}\n"
        f"work        {work['stat']}\n"
        f"contract    {shown} (signature verified)\n"
        f"audit       {'ok' if verdict['ok'] else 'BROKEN'}, {verdict['entries']} entries"
    )
    return session["fsmState"] == "COMPLETED" and session["verified"] is True and verdict["ok"]
