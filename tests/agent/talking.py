"""A conversation with the loop alone: a scripted model, tools, hooks; no store and no server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from lamella.agent import AgentRun, AgentTurn, RunHooks, Tool, run
from lamella.core.messages import Turn
from lamella.llm.scripted import ScriptedModel

Object = dict[str, Any]


class Talk:
    """Sends one message after another. `given` are fields of the first `AgentTurn`."""

    def __init__(
        self, model: ScriptedModel, *tools: Tool | Callable[..., object], hooks: RunHooks | None = None, **given: Any
    ) -> None:
        self._model = model
        self._tools = tools
        self._hooks = hooks
        self._given = given
        self.answer: AgentRun | None = None

    @property
    def turn(self) -> Turn:
        """The turn of the last answer."""
        assert self.answer is not None
        return self.answer.turn

    async def send(self, text: str) -> list[Object]:
        """The packets of the answer, as clients get them."""
        turn = self.answer.then(text) if self.answer is not None else AgentTurn(text, **self._given)
        self.answer = run(self._model, turn, self._tools, self._hooks)
        return [msgspec.to_builtins(packet) async for packet in self.answer]


def of(packets: list[Object], kind: str) -> list[Object]:
    """The packets of this type."""
    return [packet for packet in packets if packet["type"] == kind]
