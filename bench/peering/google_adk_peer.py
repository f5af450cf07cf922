"""Google ADK: Claude through LiteLLM with a context cache and event compaction by tokens, as its pages show them."""

from __future__ import annotations

import asyncio

from google.adk.agents import LlmAgent
from google.adk.agents.context_cache_config import ContextCacheConfig
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

from peering.stage import CLAUDE, CONVERSATION, address, look_up, questions, told


async def main() -> None:
    model = LiteLlm(model=f"anthropic/{CLAUDE}", api_base=address(), api_key="any", max_tokens=4_000)
    agent = LlmAgent(name="files", model=model, instruction=CONVERSATION.system, tools=[look_up])
    app = App(
        name="peers",
        root_agent=agent,
        context_cache_config=ContextCacheConfig(),
        events_compaction_config=EventsCompactionConfig(
            token_threshold=CONVERSATION.compact_at, event_retention_size=20
        ),
    )
    runner = InMemoryRunner(app=app)
    session = await runner.session_service.create_session(app_name="peers", user_id="1")
    answer = ""
    for question in questions():
        message = types.Content(role="user", parts=[types.Part(text=question)])
        async for event in runner.run_async(user_id="1", session_id=session.id, new_message=message):
            if event.is_final_response() and event.content and event.content.parts:
                answer = "".join(part.text or "" for part in event.content.parts)
    told(answer, "google-adk", "litellm")


asyncio.run(main())
