"""LiteLLM with a provider that fails: its default, two retries, and none."""

import litellm
from told import GPT

for name, more in (("default", {}), ("two", {"num_retries": 2}), ("none", {"num_retries": 0})):
    messages = [{"role": "user", "content": f"overload {name}"}]
    try:
        litellm.completion(model=f"openai/{GPT}", messages=messages, **more)
    except litellm.exceptions.InternalServerError:
        print("failed", name)
