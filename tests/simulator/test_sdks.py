"""Both official SDKs in their asynchronous forms: streaming helpers, raw answers, counts, and every kind of fault."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, get_args

import anthropic
import httpx2
import openai
import pytest

from lamella_simulator.app import create_app
from lamella_simulator.replies import FaultKind
from lamella_simulator.settings import Settings

pytestmark = pytest.mark.anyio
ASK: Any = {"model": "claude-opus-5", "max_tokens": 100, "messages": [{"role": "user", "content": "a"}]}
CHAT: Any = {"model": "gpt-5.6", "messages": [{"role": "user", "content": "a"}]}
SAID = "It opens at nine."
CALL = {"id": "c1", "name": "look", "arguments": {"where": "here"}}


@dataclass(frozen=True, slots=True)
class Clients:
    claude: anthropic.AsyncAnthropic
    gpt: openai.AsyncOpenAI
    admin: httpx2.AsyncClient

    async def script(self, **reply: object) -> None:
        """What the next requests are answered with."""
        await self.admin.post("/_sim/replies", json={"r": {"text": SAID, "match": "", **reply}})


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    transport = httpx2.ASGITransport(create_app(Settings()))
    async with httpx2.AsyncClient(transport=transport, base_url="http://simulator") as http:
        yield Clients(
            anthropic.AsyncAnthropic(api_key="k", base_url="http://simulator", http_client=http, max_retries=0),
            openai.AsyncOpenAI(api_key="k", base_url="http://simulator/v1", http_client=http, max_retries=0),
            http,
        )


async def test_the_helper_streams_of_claude(clients: Clients) -> None:
    await clients.script(tool_calls=[CALL], reasoning="hm")
    async with clients.claude.messages.stream(**ASK) as stream:
        kinds = [event.type async for event in stream]
        message = await stream.get_final_message()
    assert {"message_start", "thinking", "text", "input_json", "message_stop"} <= set(kinds)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert message.stop_reason == "tool_use"


async def test_raw_answers_counts_and_models_of_claude(clients: Clients) -> None:
    await clients.script()
    raw = await clients.claude.messages.with_raw_response.create(**ASK)
    assert raw.headers["request-id"] == raw.request_id
    parsed = await raw.parse()
    assert parsed.usage.output_tokens > 0
    counted = await clients.claude.messages.count_tokens(model=ASK["model"], messages=ASK["messages"])
    assert counted.input_tokens == parsed.usage.input_tokens
    assert ASK["model"] in [model.id async for model in clients.claude.models.list()]


async def test_the_helper_streams_of_gpt(clients: Clients) -> None:
    await clients.script(tool_calls=[CALL])
    async with clients.gpt.chat.completions.stream(**CHAT) as stream:
        await stream.until_done()
        completion = await stream.get_final_completion()
    assert (completion.choices[0].message.content, completion.choices[0].finish_reason) == (SAID, "tool_calls")
    async with clients.gpt.responses.stream(model="gpt-5.6", input="a") as events:
        kinds = [event.type async for event in events]
        response = await events.get_final_response()
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert response.output_text == SAID
    assert [item.type for item in response.output] == ["message", "function_call"]


async def test_raw_answers_counts_and_compactions_of_gpt(clients: Clients) -> None:
    await clients.script(summary="It opens at nine, they said.")
    raw = await clients.gpt.chat.completions.with_raw_response.create(**CHAT)
    assert raw.headers["x-request-id"]
    response = await clients.gpt.responses.create(model="gpt-5.6", input="a")
    counted = await clients.gpt.responses.input_tokens.count(model="gpt-5.6", input="a")
    assert response.usage is not None
    assert counted.input_tokens == response.usage.input_tokens
    compacted = await clients.gpt.responses.compact(model="gpt-5.6", input="a")
    assert [item.type for item in compacted.output] == ["message", "compaction"]
    made = await clients.gpt.embeddings.create(model="text-embedding-3-small", input=["a", "b"], dimensions=8)
    assert [len(row.embedding) for row in made.data] == [8, 8]


RAISED: dict[str, tuple[type[Exception], type[Exception]]] = {
    "429": (anthropic.RateLimitError, openai.RateLimitError),
    "500": (anthropic.InternalServerError, openai.InternalServerError),
    "504": (anthropic.InternalServerError, openai.InternalServerError),
    "529": (anthropic.APIStatusError, openai.InternalServerError),
    "stream_error": (anthropic.APIStatusError, openai.APIError),
    "drop_before": (anthropic.APIConnectionError, ConnectionResetError),
    "drop_after": (anthropic.APIConnectionError, ConnectionResetError),
}
"""What the SDKs raise. Without a socket a drop is the server's own error; `test_sockets.py` has the real ones."""


@pytest.mark.parametrize("kind", get_args(FaultKind))
async def test_every_fault_reaches_the_callers_of_both_sdks(clients: Clients, kind: str) -> None:
    """It is raised as what the SDK has for it, or the stream ends as a whole answer of another kind."""
    await clients.script(tool_calls=[CALL], fault={"kind": kind, "times": 2})

    async def of_claude() -> tuple[str | None, str]:
        async with clients.claude.messages.stream(**ASK) as stream:
            message = await stream.get_final_message()
        return message.stop_reason, "".join(block.text for block in message.content if block.type == "text")

    async def of_gpt() -> tuple[str | None, str]:
        chunks = [chunk async for chunk in await clients.gpt.chat.completions.create(**CHAT, stream=True)]
        choices = [choice for chunk in chunks for choice in chunk.choices]
        return choices[-1].finish_reason, "".join(choice.delta.content or "" for choice in choices)

    if kind in RAISED:
        for ask, raised in zip((of_claude, of_gpt), RAISED[kind], strict=True):
            with pytest.raises(raised):
                await ask()
        return
    cut = {
        "truncated_tool_json": SAID,
        "max_tokens": SAID[:-1],
        "refusal": "",
        "content_filter": "",
        "empty": "",
    }
    ends = {
        "truncated_tool_json": ("max_tokens", "length"),
        "max_tokens": ("max_tokens", "length"),
        "refusal": ("refusal", "stop"),
        "content_filter": ("refusal", "content_filter"),
        "empty": ("end_turn", "stop"),
    }.get(kind, ("tool_use", "tool_calls"))
    for told, end in zip((await of_claude(), await of_gpt()), ends, strict=True):
        assert told == (end, cut.get(kind, SAID))
    assert (await of_claude())[0] == (await of_claude())[0] == "tool_use"
