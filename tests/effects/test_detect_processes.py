"""What finding the processes of agents rests on."""

from __future__ import annotations

import subprocess
import sys


def test_finding_agents_imports_nothing_that_takes_long_and_is_seldom_needed() -> None:
    seldom = {
        *("trio", "httpx2", "cattrs", "relay.core.events", "relay.core.lift", "relay.core.redact"),
        *("relay.effects.detect_worker", "relay.providers.claude_transcript", "relay.providers.documents"),
    }
    program = "import relay.cli.detect, relay.detection, sys; from relay.providers.stores import *\n"
    program += "stores = [store_named(name) for name in store_names()]; print(*sys.modules)"

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert seldom & set(told.stdout.split()) == set()
