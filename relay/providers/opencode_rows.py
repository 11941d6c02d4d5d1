"""Asking a database whose tables may be those of another release.

Used by `relay.providers.opencode_store` and `relay.providers.opencode_messages`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any


def rows(database: sqlite3.Connection, query: str, *values: str) -> Iterator[tuple[Any, ...]]:
    """What a query gives; nothing where a table or column is missing, as in other releases."""
    try:
        cursor = database.execute(query, values)
    except sqlite3.Error:
        return
    try:
        yield from cursor
    except sqlite3.Error:
        return


def table_columns(database: sqlite3.Connection, table: str) -> set[str]:
    """The names of a table's columns; none when there is no such table."""
    return {str(row[1]) for row in rows(database, f"PRAGMA table_info({table})")}
