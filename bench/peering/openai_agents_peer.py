"""OpenAI Agents SDK: a session that compacts by the Responses API, and caching as the API does it by itself."""

from __future__ import annotations

import asyncio

from agents import Agent, Runner, SQLiteSession, function_tool, set_default_openai_client, set_tracing_disabled
from agents.memory import OpenAIResponsesCompactionSession
from openai import AsyncOpenAI

from peering.stage import CONVERSATION, GPT, address, look_up, questions, told


async def main() -> None:
    client = AsyncOpenAI(base_url=f"{address()}/v1", api_key="any")
    set_default_openai_client(client, use_for_tracing=False)
    set_tracing_disabled(True)
    agent = Agent(name="files", instructions=CONVERSATION.system, model=GPT, tools=[function_tool(look_up)])
    session = OpenAIResponsesCompactionSession(
        "1", SQLiteSession("1"), client=client, model=GPT, compaction_mode="input", should_trigger_compaction=is_long
    )
    answer = ""
    for question in questions():
        answer = (await Runner.run(agent, question, session=session)).final_output
    told(answer, "openai-agents", "openai")


def is_long(context: dict[str, object]) -> bool:
    """At the length at which all summarise, four characters to a token; by default it compacts from ten items on."""
    return len(str(context["session_items"])) / 4 > CONVERSATION.compact_at


asyncio.run(main())
