"""One session of GitHub Copilot Chat: a document, a log of changes, or a key of an old database.

As read in public sources, not seen written. Opened by `relay.providers.copilot_chat_store`.
"""

from __future__ import annotations

import re

from relay.core.lift import Lift
from relay.providers import shapes
from relay.providers.copilot_chat import is_request, lift_requests, lift_session, slim
from relay.providers.copilot_chat_store import old_sessions
from relay.providers.documents import DocumentTranscript, records_in
from relay.providers.json_texts import object_in
from relay.providers.mutation_log import MutationLog
from relay.providers.transcript import record_in

_TYPING = re.compile(rb'\{"kind":\s*[123],\s*"k":\s*\["inputState",\s*"(?!selectedModel")')
"""What is being typed changes with every key, and tells nothing here."""


class CopilotChatSession(DocumentTranscript):
    """A file, or a key in a database; read anew each time."""

    def fill(self, lift: Lift) -> None:
        """See `DocumentTranscript`."""
        path = self.found.paths[0]
        if self.found.key:
            with self.files.database(path) as database:
                for session in old_sessions(database):
                    if shapes.text(session, "sessionId") == self.found.key:
                        lift_session(lift, session)
        elif path.endswith(".jsonl"):
            self._log(lift, path)
        else:
            self._document(lift, path)

    def _document(self, lift: Lift, path: str) -> None:
        data = self.document(lift, path)
        session = object_in(data)
        if session:
            lift_session(lift, session)
        else:
            lift_requests(lift, records_in(lift, data, is_request, "requests"))

    def _log(self, lift: Lift, path: str) -> None:
        log = MutationLog(slim)
        for line in self.files.lines(path):
            lift.bytes_read = line.end
            if line.cut:
                lift.skip("oversize")
            elif line.data.strip() and not _TYPING.match(line.data):
                if not line.ended and shapes.record(line.data) is None:
                    lift.torn = 1
                    break
                entry = record_in(lift, line.data)
                if entry is not None and not log.take(entry):
                    lift.skip("unknown")
        lift_session(lift, log.state)
