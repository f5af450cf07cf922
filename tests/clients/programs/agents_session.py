"""openai-agents with its session on OpenAI's conversations: what was said is stored there, and taken back."""

import asyncio

from agents import Agent, OpenAIConversationsSession, Runner, function_tool
from told import GPT, QUESTIONS, SYSTEM, look


async def main() -> None:
    session = OpenAIConversationsSession()
    agent = Agent(name="Keeper", instructions=SYSTEM, model=GPT, tools=[function_tool(look)])
    for question in QUESTIONS[:2]:
        answer = await Runner.run(agent, question, session=session)
        print(answer.final_output)
    print([item.get("type", item.get("role")) for item in await session.get_items()])
    last = await session.pop_item()
    print("popped", last["role"], len(await session.get_items()))
    await session.clear_session()


asyncio.run(main())
