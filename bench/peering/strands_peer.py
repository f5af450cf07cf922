"""Strands Agents: a cache configuration on the model, and a manager that summarises before the window is full."""

from __future__ import annotations

import asyncio

from strands import Agent, tool
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.models import CacheConfig
from strands.models.anthropic import AnthropicModel

from peering.stage import CLAUDE, CONVERSATION, address, look_up, questions, told

WINDOW = 200_000
model = AnthropicModel(
    client_args={"base_url": address(), "api_key": "any"},
    model_id=CLAUDE,
    max_tokens=4_000,
    context_window_limit=WINDOW,
    cache_config=CacheConfig(strategy="auto", tools_ttl=True),
)
manager = SummarizingConversationManager(
    proactive_compression={"compression_threshold": CONVERSATION.compact_at / WINDOW}
)
agent = Agent(
    model=model,
    system_prompt=CONVERSATION.system,
    tools=[tool(look_up)],
    conversation_manager=manager,
    callback_handler=None,
)


async def main() -> None:
    answer = ""
    for question in questions():
        answer = str(await agent.invoke_async(question))
    told(answer, "strands-agents", "anthropic")


asyncio.run(main())
