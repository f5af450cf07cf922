"""LiteLLM: three turns over Messages and over Chat Completions, in one shape."""

import litellm
from told import CLAUDE, GPT, QUESTIONS, SYSTEM

for model in (f"anthropic/{CLAUDE}", f"openai/{GPT}"):
    messages = [{"role": "system", "content": SYSTEM}]
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        answer = litellm.completion(model=model, messages=messages, max_tokens=500).choices[0].message
        messages.append(answer)
        print(answer.content)
