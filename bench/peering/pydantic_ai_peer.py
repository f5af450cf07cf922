"""Pydantic AI: Anthropic's automatic caching with markers on instructions and tools, and Anthropic's compaction."""

from __future__ import annotations

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.anthropic import AnthropicCompaction, AnthropicModel, AnthropicModelSettings
from pydantic_ai.providers.anthropic import AnthropicProvider

from peering.stage import CLAUDE, CONVERSATION, address, look_up, questions, told

model = AnthropicModel(CLAUDE, provider=AnthropicProvider(base_url=address(), api_key="any"))
agent = Agent(
    model,
    instructions=CONVERSATION.system,
    tools=[look_up],
    capabilities=[AnthropicCompaction(token_threshold=CONVERSATION.compact_at)],
    model_settings=AnthropicModelSettings(
        max_tokens=4_000,
        anthropic_cache=True,
        anthropic_cache_instructions=True,
        anthropic_cache_tool_definitions=True,
    ),
)
history: list[ModelMessage] = []
answer = ""
for question in questions():
    ran = agent.run_sync(question, message_history=history)
    history, answer = ran.all_messages(), ran.output
told(answer, "pydantic-ai-slim", "anthropic")
