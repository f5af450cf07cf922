"""An agent with a tool of its own: `python tides.py "When is high water in Bergen?"`.

With ANTHROPIC_API_KEY a model answers; without it, a script plays one. `lamella serve` offers the same tool once this
package is installed beside it (`pip install .`): see `pyproject.toml`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace

import lamella
from lamella.core.messages import ToolCall
from lamella.llm.anthropic import connect

HIGH_WATER = {"Bergen": "03:12 and 15:40", "Oslo": "06:01 and 18:22"}

QUIET = replace(
    lamella.LAYOUTS["lamella"],
    name="quiet",
    description="As `lamella`; stubs keep nothing of a result.",
    keeps_extracts=False,
)
"""A layout of our own: the shipped one with one thing changed."""


def tide(place: str) -> str:
    """When the tide is high in a place today."""
    return HIGH_WATER.get(place, f"There are no tables for {place}; there are some for {', '.join(HIGH_WATER)}.")


def model() -> lamella.ChatModel:
    """Claude by the key of the environment, else a script that asks for Bergen and answers."""
    facts = lamella.facts("claude-haiku-4-5")
    key = os.environ.get("ANTHROPIC_API_KEY")
    if key:
        return connect(facts, base_url="https://api.anthropic.com", key=key, timeout=60, retries=2)
    call = ToolCall("call_1", "tide", '{"place": "Bergen"}')
    return lamella.ScriptedModel(
        [lamella.calling(call), lamella.saying("High water in Bergen: 03:12 and 15:40.")], facts
    )


async def ask(question: str) -> str:
    """The answer, and what stood in the window of its first request."""
    turn = lamella.AgentTurn(question, system="You know the tides. Look them up.", layout=QUIET)
    answering = model()
    shown = lamella.window(answering, turn, [tide])
    answer = lamella.run(answering, turn, [tide])
    async for _ in answer:
        pass
    return f"{answer.text}\n\n{shown}"


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(ask(sys.argv[1] if len(sys.argv) > 1 else "When is high water in Bergen?")) + "\n")
