"""`lamella.wrap`: a program's own client gets markers, and its requests are recorded in a folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import lamella
from lamella.core.errors import ConfigurationError, InvalidRequest
from lamella.gateway.wrap import _open as OPEN
from lamella_simulator.provider import Provider

from .clients import SYSTEM, tool

pytestmark = pytest.mark.anyio
ASKED: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 200, "system": SYSTEM}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "records"
    for records in [one for one in OPEN.values() if one.folder == tmp_path / "records"]:
        records.close()


def test_three_lines_give_markers_a_bill_and_a_why(provider: Provider, folder: Path) -> None:
    client: Any = lamella.wrap(anthropic.Anthropic(base_url=provider.url, api_key="k"), folder)
    messages: list[Any] = []
    tools: Any = [tool("Weather", "messages")]
    for text in ("Hello there", "And the ships?"):
        messages.append({"role": "user", "content": text})
        said = client.messages.create(messages=messages, tools=tools, **ASKED)
        messages.append({"role": "assistant", "content": said.content[0].text})
    newest = client.lamella.newest()
    assert "All that was cached was read" in newest.why.text
    assert newest.line.turns == 2
    assert newest.line.cost == pytest.approx(provider.cost)
    assert newest.line.saved > 0
    tools[0]["description"] += " Today."
    messages.append({"role": "user", "content": "Thank you"})
    with client.messages.stream(messages=messages, tools=tools, **ASKED) as stream:
        assert "".join(stream.text_stream)
    assert "tool Weather, block 0" in client.lamella.newest().why.text


async def test_clients_of_an_event_loop_and_of_the_other_vendor(provider: Provider, folder: Path) -> None:
    client: Any = lamella.wrap(openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k"), folder)
    asked: Any = {"model": "gpt-6.1-terra", "messages": [{"role": "user", "content": "Hello"}]}
    said = await client.chat.completions.create(**asked)
    assert client.lamella.newest().request.usage.input == said.usage.prompt_tokens
    stream = await client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **asked)
    chunks = [chunk async for chunk in stream]
    assert client.lamella.newest().request.usage.output == chunks[-1].usage.completion_tokens
    plain = await client.chat.completions.create(stream=True, **asked)
    assert all(chunk.choices for chunk in [chunk async for chunk in plain]), "nobody asked for a chunk without choices"
    assert client.lamella.newest().request.usage.output > 0
    answered = await client.responses.create(model="gpt-6.1-terra", input="Hello")
    assert client.lamella.newest().request.usage.input == answered.usage.input_tokens
    await client.close()


def test_a_refusal_is_the_vendors_and_is_recorded(provider: Provider, folder: Path) -> None:
    client: Any = lamella.wrap(anthropic.Anthropic(base_url=provider.url, api_key="k", max_retries=0), folder)
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(model="claude-opus-5-5", max_tokens=-1, messages=[{"role": "user", "content": "Hi"}])
    assert client.lamella.newest().request.error is not None
    assert client.models.list() is not None, "what is no request to a model passes"


def test_markers_can_be_left_out_and_those_of_the_program_stay(provider: Provider, folder: Path) -> None:
    client: Any = lamella.wrap(anthropic.Anthropic(base_url=provider.url, api_key="k"), folder, markers=False)
    client.messages.create(messages=[{"role": "user", "content": "Hi"}], tools=[tool("Log", "messages")], **ASKED)
    assert "cache_control" not in str(provider.requests[0].json)


def test_the_terminal_reads_the_records(provider: Provider, folder: Path) -> None:
    client: Any = lamella.wrap(anthropic.Anthropic(base_url=provider.url, api_key="k"), folder)
    client.messages.create(messages=[{"role": "user", "content": "Hello there"}], **ASKED)
    client.lamella.close()
    told = subprocess.run(
        [sys.executable, "-m", "lamella", "clients", "--data", str(folder)], capture_output=True, text=True, check=True
    )
    assert "anthropic for Python" in told.stdout
    assert "Hello there" in told.stdout


def test_what_is_no_client_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="takes a client of anthropic or openai, not str"):
        lamella.wrap("https://api.example", folder)


def test_a_folder_that_can_not_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError):
        lamella.wrap(anthropic.Anthropic(api_key="k"), tmp_path / "file" / "records")
