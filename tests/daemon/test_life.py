"""The daemon's own life: one at a time, private, and gone when told to be, with its agents going on."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
from pathlib import Path

import pytest
import trio

from tests.fakes.live import Event, Live, all_over, collect, texts
from tests.fakes.raw import upgrade
from tests.fakes.secrets import SECRETS, pem

HITS_ITSELF = """
for name in HUP INT QUIT; do
    sh -c 'ulimit -c 0; kill -$0 $$; echo $0 >>survived.txt' $name
done
touch tried.txt
"""
"""A signal that is ignored is survived."""


async def test_only_one_daemon_and_the_other_says_which(home: Live) -> None:
    await home.start()
    assert home.process is not None
    again = await home.cli("daemon", "run", "--port", "0")
    assert again.returncode != 0
    said = again.stderr.decode()
    assert "already running" in said
    assert f"pid {home.process.pid}" in said
    assert f"port {home.port}" in said
    assert (await home.get("/api/health"))["ok"]
    await home.stop()


async def test_a_port_that_is_taken_is_said_with_its_holder(home: Live) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        ran = await home.cli("daemon", "run", "--port", str(port))
    assert ran.returncode != 0
    said = ran.stderr.decode()
    assert f"port {port}" in said
    assert f"(pid {os.getpid()})" in said
    assert "--port" in said


async def test_the_daemon_file_tells_where_it_listens_and_goes_with_it(home: Live) -> None:
    await home.start()
    facts = json.loads((home.state / "daemon.json").read_text())
    assert home.process is not None
    assert facts["pid"] == home.process.pid
    assert facts["url"] == home.url
    health = await home.get("/api/health")
    assert health == {"ok": True, "port": home.port, "version": health["version"]}
    await home.stop()
    assert not (home.state / "daemon.json").exists()


async def test_it_listens_on_the_loopback_interface_alone(home: Live) -> None:
    await home.start()
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))
        addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1"}:
        with socket.socket() as probe, pytest.raises(OSError):
            probe.settimeout(5)
            probe.connect((str(address), home.port))
    await home.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_it_in_order(home: Live, number: signal.Signals) -> None:
    await home.start()
    assert home.process is not None
    async with home.watching() as ws:
        home.process.send_signal(number)
        with trio.fail_after(30):
            with pytest.raises(Exception):  # noqa: B017  (how the other side closes is its own affair)
                while True:
                    await ws.get_message()
    assert await home.ended() == 0


async def test_started_behind_nohup_it_stays_and_its_agents_can_be_interrupted(home: Live) -> None:
    home.launcher = ("sh", "-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh")
    home.plays("one", {"shell": HITS_ITSELF})
    repository = home.repository()
    await home.start()
    assert home.process is not None
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        home.process.send_signal(number)

    sid = await home.run(repository, "scripted/one", allow="all")
    await home.reach(sid, "COMPLETED")

    made = home.git(repository, "ls-tree", "-r", "--name-only", f"relay/{sid}").split()
    assert "tried.txt" in made
    assert "survived.txt" not in made
    home.process.send_signal(signal.SIGTERM)
    assert await home.ended() == 0


async def test_agents_go_on_without_the_daemon_and_the_next_one_follows(home: Live) -> None:
    release = home.root / "release"
    home.plays(
        "default",
        {"say": "Before"},
        {"shell": f"while [ ! -e {release} ]; do sleep 0.05; done; echo free > freed.txt"},
        {"say": "After"},
    )
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, allow="all")

    async def busy() -> bool:
        events = await home.get(f"/api/sessions/{sid}/events")
        return any(event["data"].get("kind") == "tool_call" for event in events)

    await home.until("the agent works", busy)
    await home.stop()
    assert home.processes()
    release.touch()
    await home.start()
    session = await home.reach(sid, "COMPLETED")
    assert len(session["runs"]) == 1
    assert home.git(repository, "show", f"relay/{sid}:freed.txt") == "free\n"
    assert texts(home.audit(repository), sid) == ["Before", "After"]
    await home.stop()
    assert home.processes() == []


async def test_a_client_that_reads_nothing_does_not_hold_up_the_end(home: Live) -> None:
    home.plays("default", {"flood": {"events": 500, "bytes": 20000}})
    repository = home.repository()
    await home.start()
    stuck = trio.socket.socket()
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await stuck.connect(("127.0.0.1", home.port))
    async with trio.SocketStream(stuck) as raw:
        headers = {"Host": f"127.0.0.1:{home.port}", "Authorization": f"Bearer {home.token}"}
        await raw.send_all(upgrade("/ws", headers))
        sid = await home.run(repository)
        await home.reach(sid, "COMPLETED")
        await home.stop()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


async def test_what_is_kept_is_private(home: Live) -> None:
    home.plays("first", {"write": {"path": "a.txt", "content": "A\n"}}, {"limit": "usage_limit"})
    home.plays("second", {"say": "I go on"})
    repository = home.repository()
    await home.start()
    sid = await home.run(repository, "scripted/first", "scripted/second")
    await home.reach(sid, "COMPLETED")
    for name in ("token", "signing.key", "daemon.json", "daemon.lock"):
        assert mode_of(home.state / name) == 0o600
    assert mode_of(home.state) == 0o700
    assert mode_of(repository / ".relay") == 0o700
    await home.stop()
    for top in (home.state, repository / ".relay"):
        for path in top.rglob("*"):
            if (repository / ".relay" / "worktrees") in path.parents or path.is_symlink():
                continue
            assert mode_of(path) & 0o077 == 0 or mode_of(path.parent) & 0o077 == 0, path
    assert home.git(repository, "status", "--porcelain") == ""


async def test_a_secret_that_an_agent_says_is_kept_nowhere(home: Live) -> None:
    spoken = [shape for shape in SECRETS if "\n" not in shape.text]
    key = pem()
    home.plays(
        "first",
        *({"say": f"the key: {shape.text}"} for shape in spoken),
        {"say": key},
        {"think": spoken[0].text},
        {"decide": spoken[1].text},
        {"shell": f"printf '%s\\n' '{spoken[2].core}'"},
        {"stderr": spoken[0].text},
        {"garbage": {"text": f"no record {spoken[0].text}"}},
        {"limit": "usage_limit"},
    )
    home.plays("second", {"say": f"again {spoken[1].text}"})
    repository = home.repository()
    (home.root / "scenario-first.json").rename(home.root / "moved.json")
    home.account("first", {"SCRIPTED_SCENARIO": str(home.root / "moved.json")})
    await home.start()
    seen: list[Event] = []
    async with home.watching() as ws:
        sid = await home.run(repository, "scripted/first", "scripted/second", allow="all")
        await collect(ws, seen, all_over(1))
    session = await home.reach(sid, "COMPLETED")
    assert session["handoffsDone"] == 1
    counted = await home.get("/api/redactions", session=sid)
    assert counted["total"] >= len(spoken)
    answers = [
        json.dumps(await home.get(path))
        for path in (
            f"/api/sessions/{sid}/events",
            f"/api/contract?session={sid}",
            f"/api/sessions/{sid}",
            "/api/events",
            "/api/audit",
        )
    ]

    async def sealed() -> bool:
        folders = list((repository / ".relay" / "sessions" / sid).glob("run-*"))
        return len(folders) == 2 and not any(spoken[1].core.encode() in read(f / "out") for f in folders)

    await home.until("the runs' output is rewritten", sealed)
    await home.stop()
    kept = [path for top in (home.state, repository) for path in top.rglob("*") if path.is_file()]
    cores = [shape.core for shape in spoken] + key.split("\n")[1:4]
    for core in cores:
        assert core not in json.dumps(seen)
        assert not [core for answer in answers if core in answer]
        told = core.encode()
        assert [str(path) for path in kept if told in read(path)] == []


def read(path: Path) -> bytes:
    return path.read_bytes()
