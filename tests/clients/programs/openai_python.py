"""The official library of OpenAI: three turns over Chat Completions, then three over Responses."""

import json

from openai import OpenAI
from told import GPT, QUESTIONS, SYSTEM, look

SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
NAMED = {"name": "look", "description": look.__doc__, "parameters": SCHEMA}
client = OpenAI()


def chat() -> None:
    messages = [{"role": "system", "content": SYSTEM}]
    tools = [{"type": "function", "function": NAMED}]
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        while True:
            answer = client.chat.completions.create(model=GPT, messages=messages, tools=tools).choices[0].message
            messages.append(answer.model_dump(exclude_none=True))
            if not answer.tool_calls:
                break
            for call in answer.tool_calls:
                result = look(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        print(answer.content)


def responses() -> None:
    items = []
    asked = {"model": GPT, "instructions": SYSTEM, "tools": [{"type": "function", **NAMED}], "store": False}
    for question in QUESTIONS:
        items.append({"role": "user", "content": question})
        while True:
            with client.responses.stream(input=items, include=["reasoning.encrypted_content"], **asked) as stream:
                answer = stream.get_final_response()
            items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in answer.output]
            calls = [item for item in answer.output if item.type == "function_call"]
            if not calls:
                break
            for call in calls:
                result = look(**json.loads(call.arguments))
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
        print(answer.output_text)


chat()
responses()
