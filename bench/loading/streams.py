"""A stream of 30 deltas a second, by each way that it can take, and when its deltas came."""

from __future__ import annotations

import time
from dataclasses import dataclass

import anthropic
import httpx2

from latency import MODEL, QUESTION
from loading.litellm import MODEL as BEHIND_PROXY
from loading.litellm import PROXY_KEY
from processes import KEY

RATE = 30
"""Deltas of a stream in a second."""
MOST = 4_000
"""Tokens that an answer may have."""


@dataclass(slots=True)
class Stream:
    """When each delta came, and the bytes that came in all."""

    times: list[float]
    bytes: int = 0

    def lags(self) -> list[float]:
        """Seconds that each delta was late."""
        return [at - self.times[0] - number / RATE for number, at in enumerate(self.times)]


async def _listen(answer: httpx2.Response, mark: bytes) -> Stream:
    """Read a stream to its end; a delta is a line that holds `mark`."""
    answer.raise_for_status()
    found, end = Stream([]), b""
    async for data in answer.aiter_raw():
        at = time.perf_counter()
        count = (end + data).count(mark) - end.count(mark)
        found.times += [at] * count
        found.bytes += len(data)
        end = data[-len(mark) + 1 :]
    return found


async def straight(http: httpx2.AsyncClient) -> Stream:
    """From the simulator itself."""
    body = {"model": MODEL, "max_tokens": MOST, "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    headers = {"authorization": f"Bearer {KEY}", "anthropic-version": "2026-10-21"}
    async with http.stream("POST", "/v1/messages", json=body, headers=headers) as answer:
        return await _listen(answer, b'"text_delta"')


async def by_sdk(client: anthropic.AsyncAnthropic) -> Stream:
    """From the simulator, through the SDK that the server uses too, as it comes."""
    found = Stream([])
    ask: anthropic.types.MessageParam = {"role": "user", "content": QUESTION}
    async with await client.messages.create(model=MODEL, max_tokens=MOST, messages=[ask], stream=True) as events:
        async for event in events:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                found.times.append(time.perf_counter())
    return found


async def through(http: httpx2.AsyncClient, conversation: str) -> Stream:
    """Through the server."""
    path = f"/api/v1/conversations/{conversation}/turns"
    async with http.stream("POST", path, json={"text": QUESTION}) as answer:
        return await _listen(answer, b'"type":"text.delta"')


async def by_litellm(http: httpx2.AsyncClient) -> Stream:
    """Through LiteLLM's proxy, by Chat Completions."""
    messages = [{"role": "user", "content": QUESTION}]
    body = {"model": BEHIND_PROXY, "max_tokens": MOST, "stream": True, "messages": messages}
    headers = {"authorization": f"Bearer {PROXY_KEY}"}
    async with http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
        return await _listen(answer, b'"content":"')
