"""Asking Cursor's databases, whose tables may be those of another version.

Used by `relay.providers.cursor_store` and `relay.providers.cursor_conversation`.
"""

from __future__ import annotations

import sqlite3
from typing import Any


def value_of(database: sqlite3.Connection | None, table: str, key: str) -> bytes:
    """The value of a key; nothing when it is NULL, or there is no such row or table."""
    rows = rows_of(database, f"SELECT value FROM {table} WHERE key = ?", key)
    value = rows[0][0] if rows else None
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return value if isinstance(value, bytes) else b""


def rows_of(database: sqlite3.Connection | None, query: str, *values: str | int) -> list[Any]:
    """What a query gives; nothing where a table or column is missing, as in other versions."""
    if database is None:
        return []
    try:
        return database.execute(query, values).fetchall()
    except sqlite3.Error:
        return []
