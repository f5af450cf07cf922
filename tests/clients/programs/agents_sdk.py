"""OpenAI's agents library: three turns with a tool over Responses, as it sends by default."""

from agents import Agent, Runner, function_tool
from told import GPT, QUESTIONS, SYSTEM, look

agent = Agent("keeper", instructions=SYSTEM, model=GPT, tools=[function_tool(look)])
items = []
for question in QUESTIONS:
    result = Runner.run_sync(agent, [*items, {"role": "user", "content": question}])
    items = result.to_input_list()
    print(result.final_output)
