"""A server on the data folder that it is given: its model calls a tool, step by step, until a call never comes back.

With more arguments the model says just these words, whatever it is asked.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from lamella.app.app import open_app
from lamella.cli.logs import configure_logs
from lamella.core import deltas
from lamella.core.messages import ToolCall
from lamella.core.prompt import ToolSpec
from lamella.llm.scripted import ReplayEvent, ScriptedModel, ScriptedModels, calling, saying
from lamella.server.testing import serving
from lamella.server.web import create_web
from lamella.settings import read_settings
from lamella.tooling.tool import Invocation, ToolKind, ToolScope

ANSWERS = 50
"""More than any test asks for."""


class Look:
    """Answers the first call and hangs on every other."""

    spec = ToolSpec("look", "Looks.", '{"type":"object"}')
    kind = ToolKind.OTHER
    timeout = 60.0

    async def run(self, scope: ToolScope, call: Invocation) -> str:
        if call.arguments:
            await asyncio.Event().wait()
        return "Seen."


def script(words: list[str]) -> list[list[ReplayEvent]]:
    if words:
        return [saying(*words)] * ANSWERS
    thought = deltas.ReasoningDelta(9, "Hm.")
    return [
        [*calling(ToolCall("c1", "look", "{}"), text="First.")[:-2], thought, *calling()[-2:]],
        calling(ToolCall("c2", "look", "{}"), ToolCall("c3", "look", '{"where":"there"}'), text="Then."),
    ]


async def main(data: Path, words: list[str]) -> None:
    model = ScriptedModel(script(words))
    async with (
        open_app(read_settings(data=data), models=ScriptedModels(model), tools=(Look(),)) as app,
        serving(create_web(app)) as address,
    ):
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    configure_logs()
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
