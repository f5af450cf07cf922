"""Pydantic AI: three turns with a tool over Messages, over Chat Completions, and over Responses."""

from pydantic_ai import Agent
from told import CLAUDE, GPT, QUESTIONS, SYSTEM, look

for model in (f"anthropic:{CLAUDE}", f"openai-chat:{GPT}", f"openai-responses:{GPT}"):
    agent = Agent(model, instructions=SYSTEM, tools=[look])
    history = None
    for question in QUESTIONS:
        result = agent.run_sync(question, message_history=history)
        history = result.all_messages()
        print(result.output)
