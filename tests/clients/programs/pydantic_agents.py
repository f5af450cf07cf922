"""Pydantic AI: three turns with a tool over Messages, over Chat Completions, and over Responses.

With the argument `typed` a fourth turn wants an answer of a type.
"""

import sys

from pydantic import BaseModel
from pydantic_ai import Agent
from told import CLAUDE, GPT, QUESTIONS, SYSTEM, look


class Report(BaseModel):
    """What is known of the lamp."""

    lamp: str


for model in (f"anthropic:{CLAUDE}", f"openai-chat:{GPT}", f"openai-responses:{GPT}"):
    agent = Agent(model, instructions=SYSTEM, tools=[look])
    history = None
    for question in QUESTIONS:
        result = agent.run_sync(question, message_history=history)
        history = result.all_messages()
        print(result.output)
    if "typed" in sys.argv:
        print(agent.run_sync("Report, please", message_history=history, output_type=Report).output)
