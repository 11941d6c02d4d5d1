"""Plays a scenario: one turn a message, the tasks in the first, whatever was left over on "continue".

Owned by `__main__`. Steps are played one by one; between two, and within those that wait, an interrupt
is heard: it ends that wait for good. What was not played stays in the queue, so that a limit can be
lifted and the work go on.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from relay.scripted_agent import tools, trouble
from relay.scripted_agent.met_limits import MetLimits
from relay.scripted_agent.reading import tasks_left
from relay.scripted_agent.scenario import Scenario, Step
from relay.scripted_agent.stage import Stage, TurnOver, UserMessage
from relay.scripted_agent.stdio import Inbox, Outlet

VERSION = "1"
_PLAYED = {**tools.PLAYED, **trouble.PLAYED}
_PLAN = "plan"
_WAITS = ("sleep", "slow_tool", "hang")
_GO_ON = re.compile(r"\s*(?:please )?(?:continue|go on|carry on|resume)\b|.*\bopen items\b", re.IGNORECASE)
_NOT_ACCEPTED = re.compile(r"\bnot (?:yet )?accepted\b", re.IGNORECASE)


class Player:
    """One agent: a scenario, a conversation, and how far it has come."""

    def __init__(self, scenario: Scenario, inbox: Inbox, out: Outlet, env: Mapping[str, str]) -> None:
        self._scenario = scenario
        self._stage = Stage(inbox, out)
        self._out = out
        self._model = env.get("SCRIPTED_MODEL") or scenario.model
        self._session = env.get("SCRIPTED_SESSION") or f"scripted-{scenario.name}"
        self._met = MetLimits(env.get("SCRIPTED_HOME", ""), self._session)
        self._plan = {task.name: "pending" for task in scenario.tasks}
        self._left: deque[Step] = deque()
        self._begun = False

    def run(self) -> int:
        """Play turn after turn until the input ends; the exit status."""
        cwd = str(Path.cwd())
        self._out.record("hello", session=self._session, model=self._model, cwd=cwd, version=VERSION)
        while (message := self._stage.next_message()) is not None:
            over = self._turn(message)
            if over.status is not None:
                return over.status
        return 0

    def _turn(self, message: UserMessage) -> TurnOver:
        self._stage.begin_turn(message.key)
        over = TurnOver("completed")
        try:
            steps = self._steps_for(message.text)
            while steps:
                self._between(steps)
                self._play(steps)
        except TurnOver as ended:
            over = ended
        self._stage.end_turn(over)
        return over

    def _between(self, steps: deque[Step]) -> None:
        try:
            self._stage.poll()
        except TurnOver:
            # From outside nobody can tell that the wait had not begun yet.
            if steps[0].name in _WAITS:
                steps.popleft()
            raise

    def _steps_for(self, text: str) -> deque[Step]:
        if not self._begun:
            self._begun = True
            self._begin(tasks_left(text, tuple(self._plan)))
            return self._left
        if _NOT_ACCEPTED.search(text) and self._scenario.on_verify_failed:
            return deque(self._scenario.on_verify_failed)
        if self._left and (_GO_ON.match(text) or _NOT_ACCEPTED.search(text)):
            return self._left
        return deque(self._scenario.on_reply) or deque((Step("say", {"text": "ok", "stream": False}),))

    def _begin(self, left: Sequence[str] | None) -> None:
        for task in self._scenario.tasks:
            if left is not None and task.name not in left:
                self._plan[task.name] = "completed"
                continue
            self._left.append(Step(_PLAN, {"task": task.name, "status": "in_progress"}))
            self._left.extend(task.steps)
            self._left.append(Step(_PLAN, {"task": task.name, "status": "completed"}))
        self._left.extend(self._scenario.at_end)
        self._show_plan()

    def _play(self, steps: deque[Step]) -> None:
        step = steps.popleft()
        if step.name == _PLAN:
            self._plan[step.args["task"]] = step.args["status"]
            self._show_plan()
            return
        if step.name == "limit":
            if not self._met.meets(step.place, step.args["times"]):
                return
            # Met again, or passed, when the work goes on.
            steps.appendleft(step)
        _PLAYED[step.name](self._stage, step.args)

    def _show_plan(self) -> None:
        if self._plan:
            items = [{"text": name, "status": status} for name, status in self._plan.items()]
            self._out.record("plan", items=items)
