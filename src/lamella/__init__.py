"""Lamella: a chat engine whose context is a pure function of stored data.

See what a model would be shown and why, before anything is sent:

    import lamella

    model = lamella.ScriptedModel([lamella.saying("It is 5.")], lamella.facts("claude-opus-5-5"))
    turn = lamella.AgentTurn("What is 2 + 3?", system="You are a calculator.")
    print(lamella.window(model, turn))

Let it answer, with functions as tools; each packet says what happens:

    async def add(a: int, b: int) -> str:
        "Add two numbers."
        return str(a + b)

    answer = lamella.run(model, turn, [add])
    async for packet in answer:
        print(packet)
    print(answer.text, answer.cost)

See what a client of your own costs, and why:

    client = lamella.wrap(anthropic.Anthropic())
    client.messages.create(model="claude-opus-5-5", max_tokens=200, messages=[{"role": "user", "content": "Hello"}])
    print(client.lamella.newest().why.text)

A real model is `lamella.llm.anthropic.connect(lamella.facts("claude-opus-5-5"), base_url=…, key=…, timeout=60)`, for
example. A whole backend on a folder, with conversations, files and knowledge bases, is `lamella.app.app.open_app`. A
client of a server that runs elsewhere is `lamella.client.connect`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lamella.agent import AgentRun, AgentTurn, Fallback, RunHooks, Tool, ToolOutput, function_tool, run
    from lamella.agent.preview import Window, WindowRow, window
    from lamella.context.layouts import LAYOUTS
    from lamella.core.errors import LamellaError
    from lamella.core.ports import ChatModel
    from lamella.core.tokens import Usage
    from lamella.gateway.wrap import wrap
    from lamella.llm.model_table import facts
    from lamella.llm.scripted import ScriptedModel, calling, saying

__version__ = "0.1.0"

__all__ = [
    "LAYOUTS",
    "AgentRun",
    "AgentTurn",
    "ChatModel",
    "Fallback",
    "LamellaError",
    "RunHooks",
    "ScriptedModel",
    "Tool",
    "ToolOutput",
    "Usage",
    "Window",
    "WindowRow",
    "calling",
    "facts",
    "function_tool",
    "run",
    "saying",
    "window",
    "wrap",
]

_HOMES = {
    "lamella.agent": ("AgentRun", "AgentTurn", "Fallback", "RunHooks", "Tool", "ToolOutput", "function_tool", "run"),
    "lamella.agent.preview": ("Window", "WindowRow", "window"),
    "lamella.context.layouts": ("LAYOUTS",),
    "lamella.core.errors": ("LamellaError",),
    "lamella.core.ports": ("ChatModel",),
    "lamella.core.tokens": ("Usage",),
    "lamella.gateway.wrap": ("wrap",),
    "lamella.llm.model_table": ("facts",),
    "lamella.llm.scripted": ("ScriptedModel", "calling", "saying"),
}


def __getattr__(name: str) -> object:
    """Loads a name when it is first used: the program and its children import this package and need none of them."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
