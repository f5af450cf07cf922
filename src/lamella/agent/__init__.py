"""The loop over a model, a window, tools and hooks. It gives packets, and needs neither a store nor a server.

A function is a tool. `hooks` are told what the loop does, and asked what it can't decide: see `RunHooks`.

    async def add(a: int, b: int) -> str:
        "Add two numbers."
        return str(a + b)

    call = ToolCall("call_1", "add", '{"a": 2, "b": 3}')
    model = ScriptedModel([calling(call), saying("It is 5."), saying("It is 9.")])
    answer = run(model, AgentTurn("What is 2 + 3?", system="You are a calculator."), [add])
    async for packet in answer:
        print(packet)
    again = run(model, answer.then("And 4 more?"), [add])
    async for packet in again:
        print(packet)
    print(answer.text, again.text, again.cost)
"""

from lamella.agent.hooks import Fallback, RunHooks
from lamella.agent.run import AgentRun, AgentTurn, run
from lamella.tooling.tool import Tool, ToolOutput, function_tool

__all__ = ["AgentRun", "AgentTurn", "Fallback", "RunHooks", "Tool", "ToolOutput", "function_tool", "run"]
