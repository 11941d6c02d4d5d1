"""Synthetic secrets for tests, put together at run time so that no scanner finds them in the repository."""

from __future__ import annotations

import base64
import json
import random
import string
from pathlib import Path

from attrs import frozen

_SHAPES = Path(__file__).parent.parent / "fixtures" / "secrets" / "shapes.json"

INSIDE = {
    "aws_secret": "=",
    "azure_storage": "AccountKey=",
    "slack_webhook": "services/",
    "discord_webhook": "333561623619374294/",
    "cursor": "KEY=",
    "bearer": "Bearer ",
    "url_basic": "relay:",
    "env_assign": '="',
}
"""Kinds of which only a part is secret: what stands just before that part in the example."""

_AFTER = {"azure_storage": ";EndpointSuffix", "url_basic": "@db.", "env_assign": '"'}


@frozen(kw_only=True)
class Shape:
    """One example.

    Args:
        id: the kind, or the name of the look-alike.
        secret: whether it must be redacted.
        text: the whole example.
    """

    id: str
    secret: bool
    text: str

    @property
    def core(self) -> str:
        """The part of `text` that must be gone."""
        core = self.text
        if self.id in INSIDE:
            core = core[core.index(INSIDE[self.id]) + len(INSIDE[self.id]) :]
        return core.split(_AFTER[self.id])[0] if self.id in _AFTER else core

    @property
    def scrubbed(self) -> str:
        """`text` as it must look afterwards."""
        return self.text.replace(self.core, f"[REDACTED:{self.id}]")


def shapes() -> list[Shape]:
    """Every example, secrets and look-alikes."""
    rows = json.loads(_SHAPES.read_text(encoding="utf-8"))
    return [
        Shape(
            id=row["id"],
            secret=row["secret"],
            text=base64.b64decode("".join(row["reversed_base64"])[::-1]).decode(),
        )
        for row in rows
    ]


SECRETS = [shape for shape in shapes() if shape.secret]
LOOKALIKES = [shape for shape in shapes() if not shape.secret]
BY_ID = {shape.id: shape for shape in shapes()}


_DASHES = "-" * 5
_PRIVATE = "PRIVATE " + "KEY"
BEGIN_KEY = f"{_DASHES}BEGIN RSA {_PRIVATE}{_DASHES}"
END_KEY = f"{_DASHES}END RSA {_PRIVATE}{_DASHES}"


def random_token(head: str, size: int, seed: int = 0) -> str:
    """A token-shaped text: `head`, then `size` random letters and digits."""
    return head + "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=size))


def pem(label: str = "RSA ", lines: int = 6, seed: int = 0) -> str:
    """A private key block of `lines` full base64 lines and a short one."""
    rng = random.Random(seed)
    alphabet = string.ascii_letters + string.digits + "+/"
    body = ["".join(rng.choices(alphabet, k=64)) for _ in range(lines)] + [
        "".join(rng.choices(alphabet, k=22)) + "=="
    ]
    begin, end = f"{_DASHES}BEGIN {label}{_PRIVATE}{_DASHES}", f"{_DASHES}END {label}{_PRIVATE}{_DASHES}"
    return "\n".join([begin, *body, end])
