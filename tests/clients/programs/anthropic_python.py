"""The official library of Anthropic: three turns with its tool runner, without a cache marker."""

from anthropic import Anthropic, beta_tool
from told import CLAUDE, QUESTIONS, SYSTEM, look

client = Anthropic()
messages = []
for question in QUESTIONS:
    messages.append({"role": "user", "content": question})
    while True:
        tools = [beta_tool(look).to_dict()]
        with client.messages.stream(
            model=CLAUDE, max_tokens=500, system=SYSTEM, messages=messages, tools=tools
        ) as stream:
            answer = stream.get_final_message()
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            break
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": look(**call.input)} for call in calls]
        messages.append({"role": "user", "content": results})
    print("".join(block.text for block in answer.content if block.type == "text"))
