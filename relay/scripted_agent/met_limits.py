"""How often a limit has been met: after so many times it is lifted.

Kept in the account's folder where there is one, by the session, so that an agent started anew for the
same task finds its limit lifted as a real one would.
"""

from __future__ import annotations

import json
from pathlib import Path


class MetLimits:
    """Counts by the limit's place in its scenario.

    Args:
        home: the account's folder, or "": the counts last as long as the process.
        session: the agent's session, `<task>.<run>`; counts are the task's.
    """

    def __init__(self, home: str, session: str) -> None:
        name = (session.rpartition(".")[0] or session).replace("/", "_")
        self._file = Path(home) / "limits" / f"{name}.json" if home else None
        self._counts = self._kept()

    def meets(self, place: str, times: int) -> bool:
        """The limit stands at this place, for the `times` first times."""
        count = self._counts.get(place, 0)
        if count >= times:
            return False
        self._counts[place] = count + 1
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps(self._counts), "utf-8")
        return True

    def _kept(self) -> dict[str, int]:
        try:
            kept = json.loads(self._file.read_bytes()) if self._file else {}
        except (OSError, ValueError):
            return {}
        return {str(place): count for place, count in kept.items()} if isinstance(kept, dict) else {}
