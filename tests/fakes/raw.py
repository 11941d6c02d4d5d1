"""Requests byte by byte, for what no honest client sends."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from typing import Any

import trio


async def exchange(port: int, request: bytes) -> bytes:
    """Send the bytes and read until the other side closes, or has answered in full."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(request)
        got = b""
        with trio.fail_after(10):
            while not _whole(got):
                piece = await stream.receive_some()
                if not piece:
                    break
                got += piece
    return got


def _whole(got: bytes) -> bool:
    head, found, body = got.partition(b"\r\n\r\n")
    if not found:
        return False
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return head.startswith(b"HTTP/1.1 101")


def upgrade(path: str, headers: Mapping[str, str], *, version: str = "1.1") -> bytes:
    """The bytes of a WebSocket handshake."""
    sent = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Version": "13",
        **headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"GET {path} HTTP/{version}\r\n{lines}\r\n".encode()


async def refusal(port: int, request: bytes) -> tuple[int, Any]:
    """Status and JSON body of the answer."""
    got = await exchange(port, request)
    head, _, body = got.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1])
    try:
        return status, json.loads(body)
    except ValueError:
        return status, body
