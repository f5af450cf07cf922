"""One rich conversation as every layout sends it, written so that a change of what a model reads can be reviewed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lamella.cache.ledger import Ledger
from lamella.cache.planner import MarkerPolicy, plan
from lamella.context.assemble import Assembled, assemble
from lamella.context.input import ContextInput
from lamella.context.layouts import LAYOUTS
from lamella.core.agents import Agent, Project, Summary
from lamella.core.messages import Attachment, Reasoning, Step, StopReason, Text, ToolCall, ToolResult, Turn, TurnStatus
from lamella.core.models import ModelFacts
from lamella.core.prompt import Sampling, ToolSpec

from .plans import picture
from .windows import document, turn
from .wires import blocks_of, body_of, keyed

TOOLS = (
    ToolSpec("search", "Looks words up. In all bases.", '{"type":"object"}'),
    ToolSpec("read_file", "Reads a listed document.", '{"type":"object"}'),
)
AGENT = Agent("agent_1", "Pirate", "Talk like a pirate.", "Say “arr”.")
PROJECT = Project("proj_1", "Ship", "Mind the crew.", (document(3, 5, "The ship is called Anna."),))
SUMMARY = Summary("sum_1", "They talked of harbours.", 6)
PHOTO = Attachment("photo", 2, "sea.png", "image/png", 33, 0, None, image=picture("photo", 640, 480))
NOTES = document(1, 4, "The sky is blue.")
CITE = "Cite what you use."


def story(layout: str, model: ModelFacts) -> Assembled:
    """The last of five requests: a finished turn with a call, and a second one whose call has its result."""
    first = turn(1, text="What colour is the sky?", attached=[NOTES, PHOTO], dynamic="The user is Ann.")
    asked = send(layout, model, first)
    called = step("step_1", asked, Text("Let me look."), ToolCall("c1", "search", '{"query":"sky"}'))
    found = ToolResult("c1", "search", "Blue.", queries=("sky", "sky colour"), digest="The sky was blue.")
    first = replace(first, steps=(replace(called, results=(found,)),))
    read = send(layout, model, first, reminder=CITE, before=asked)
    said = replace(step("step_2", read, Text("Blue, arr [1].")), reminder=CITE)
    first = replace(first, steps=(*first.steps, said), status=TurnStatus.FINISHED)
    second = turn(2, text="And the sea?", dynamic="The user is Ann.\n\nShe is at sea.")
    again = send(layout, model, second, first, before=read)
    thinks = Reasoning("The sea, then.", "c2VhbA==")
    called = step("step_3", again, thinks, ToolCall("c2", "search", '{"query":"sea"}'))
    second = replace(second, steps=(replace(called, results=(ToolResult("c2", "search", "Green."),)),))
    return send(layout, model, second, first, reminder=CITE, before=again)


def send(
    layout: str, model: ModelFacts, running: Turn, *history: Turn, reminder: str = "", before: Assembled | None = None
) -> Assembled:
    """A request of the story; documents are admitted anew each time, the same way."""
    asked = ContextInput(
        model=model,
        budget=50_000,
        sampling=Sampling(1_000, "low"),
        system="You are helpful.",
        tools=TOOLS,
        history=history,
        turn=running,
        reminder=reminder,
        agent=AGENT,
        project=PROJECT,
        summaries=(SUMMARY,),
        searched=bool(reminder),
    )
    return assemble(asked, LAYOUTS[layout], before)


def step(id: str, asked: Assembled, *parts: Text | Reasoning | ToolCall) -> Step:
    """What the model said to a request."""
    calls = any(isinstance(part, ToolCall) for part in parts)
    stop = StopReason.TOOL_CALLS if calls else StopReason.END_TURN
    return Step(id, asked.model.name, parts, stop, asked.report.durable, 9)


def golden(layout: str, model: ModelFacts) -> str:
    """The body that the story's last request has, readable: `◆` behind what carries a cache marker."""
    made = story(layout, model)
    wire = model.provider
    blocks = blocks_of(made, wire)
    keys, facts = keyed(made, wire, blocks, 1.0)
    markers = plan(keys, Ledger(), facts, MarkerPolicy(made.layout.markers)).markers
    body: Any = body_of(made, wire, blocks, markers)
    lines = [f"tools: {', '.join(map(tool_line, body['tools']))}"]
    lines += [f"system{marker(block)}:\n{indented(block['text'])}" for block in body.get("system", ())]
    return "\n".join((*lines, *(message_lines(message) for message in body["messages"])))


def tool_line(tool: dict[str, Any]) -> str:
    """The name of a tool."""
    name: str = tool.get("name") or tool["function"]["name"]
    return name + marker(tool)


def marker(block: dict[str, Any]) -> str:
    """The sign of a cache marker."""
    return " ◆" if "cache_control" in block or "prompt_cache_breakpoint" in block else ""


def message_lines(message: dict[str, Any]) -> str:
    """A message with its parts."""
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    lines = [f"{message['role']}:", *(part_lines(part) for part in parts)]
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return "\n".join((*lines, *(f"- call {call['name']} {call['arguments']}" for call in calls)))


def part_lines(part: dict[str, Any]) -> str:
    """A part of a message."""
    match part["type"]:
        case "text":
            return indented(part["text"]) + marker(part)
        case "thinking":
            return f"- (thinking: {part['thinking']})"
        case "tool_use":
            return f"- call {part['name']} {part['input']}{marker(part)}"
        case "tool_result":
            return f"- result: {part['content']}{marker(part)}"
        case kind:
            return f"- ({kind}){marker(part)}"


def indented(text: str) -> str:
    """A text behind a dash, its further lines below it."""
    return "- " + "\n".join(f"  {line}".rstrip() for line in text.split("\n")).removeprefix("  ")
