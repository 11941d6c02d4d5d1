"""`relay demo`: what it names at the end is there to look at, or not named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path


def demo(tmp_path: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "LANG": "C.UTF-8"}
    ran = subprocess.run(
        [sys.executable, "-m", "relay", "demo", *words],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.decode()


def test_the_contract_that_is_named_is_there_unless_it_was_cleaned_up(tmp_path: Path) -> None:
    kept = demo(tmp_path)
    path = re.search(r"^contract +(\S+) \(signature verified\)$", kept, re.M)
    assert path is not None
    assert Path(path[1]).is_file()
    for folder in tmp_path.glob("relay-demo-*"):
        shutil.rmtree(folder)

    cleaned = demo(tmp_path, "--clean-up")
    assert re.search(r"^contract +c-\S+ \(signature verified\)$", cleaned, re.M)
    assert list(tmp_path.glob("relay-demo-*")) == []
