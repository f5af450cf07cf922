"""LangChain: three turns with a tool over Messages, over Chat Completions, and over Responses."""

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from told import CLAUDE, GPT, QUESTIONS, SYSTEM, look

looking = tool(look)
models = (ChatAnthropic(model=CLAUDE), ChatOpenAI(model=GPT, use_responses_api=False), ChatOpenAI(model=GPT))
for model in models:
    bound = model.bind_tools([looking])
    messages = [SystemMessage(SYSTEM)]
    for question in QUESTIONS:
        messages.append(HumanMessage(question))
        answer = bound.invoke(messages)
        messages.append(answer)
        while answer.tool_calls:
            messages += [looking.invoke(call) for call in answer.tool_calls]
            answer = bound.invoke(messages)
            messages.append(answer)
        print(answer.text)
