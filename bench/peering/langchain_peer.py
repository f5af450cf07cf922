"""LangChain: its caching and summarisation middleware over ChatAnthropic, as its pages on both show them."""

from __future__ import annotations

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_anthropic import ChatAnthropic
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from peering.stage import CLAUDE, CONVERSATION, address, look_up, questions, told

model = ChatAnthropic(model=CLAUDE, base_url=address(), api_key="any", max_tokens=4_000)
agent = create_agent(
    model,
    tools=[look_up],
    system_prompt=CONVERSATION.system,
    middleware=[
        # By default only the last 4,000 tokens of what is dropped are summarised: None takes all.
        SummarizationMiddleware(
            model=model,
            trigger=("tokens", CONVERSATION.compact_at),
            keep=("messages", 20),
            trim_tokens_to_summarize=None,
        ),
        AnthropicPromptCachingMiddleware(ttl="5m"),
    ],
    checkpointer=InMemorySaver(),
)
thread = {"configurable": {"thread_id": "1"}}
answer = ""
for question in questions():
    state = agent.invoke({"messages": [{"role": "user", "content": question}]}, thread)
    answer = state["messages"][-1].text
told(answer, "langchain", "langchain-anthropic")
