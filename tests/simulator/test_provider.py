"""`simulated()`: what a test of somebody's prompt caching asks of it, and the how-to page, which runs under pytest."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anthropic
import msgspec
import openai
import pytest

from lamella_simulator import Provider, simulated

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "test-prompt-caching.md").read_text("utf-8")
README = (Path(__file__).parents[2] / "src" / "lamella_simulator" / "README.md").read_text("utf-8")
LONG = "Close the valve. " * 400
MARKED: Any = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]


def blocks(page: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))


def say(provider: Provider, text: str = "Go on.") -> anthropic.types.Message:
    client = anthropic.Anthropic(base_url=provider.url, api_key=provider.key, max_retries=0)
    messages: Any = [{"role": "user", "content": text}]
    return client.messages.create(model="claude-opus-5", max_tokens=50, system=MARKED, messages=messages)


@pytest.mark.parametrize(("page", "count"), [(PAGE, 3), (README, 1)], ids=["how-to", "readme"])
def test_a_page_runs_as_it_stands(tmp_path: Path, page: str, count: int) -> None:
    (tmp_path / "test_page.py").write_text(blocks(page))
    plugins = ["-p", "lamella_simulator.pytest_plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert f"{count} passed" in ran.stdout, ran.stdout + ran.stderr


def test_tokens_and_cost_are_those_of_the_answers() -> None:
    with simulated() as provider:
        first, second = say(provider).usage, say(provider).usage
    assert provider.tokens_written == first.cache_creation_input_tokens
    assert provider.tokens_read == second.cache_read_input_tokens
    assert provider.tokens_fresh == first.input_tokens + second.input_tokens
    assert provider.tokens_output == first.output_tokens + second.output_tokens
    assert provider.cost == sum(request.cost for request in provider.requests) > 0


def test_every_wire_is_counted_alike() -> None:
    with simulated() as provider:
        client = openai.OpenAI(base_url=provider.openai_url, api_key=provider.key)
        for _ in range(2):
            client.responses.create(model="gpt-5.6", instructions=LONG, input="Go on.", store=False)
        client.embeddings.create(model="text-embedding-3-small", input="valve")
    first, second, embedded = provider.requests
    assert first.tokens_read == 0
    assert second.tokens_read == first.tokens_written > 1_000
    assert embedded.tokens_fresh > 0
    assert first.json["instructions"] == LONG


def test_a_refused_request_is_seen_and_costs_nothing() -> None:
    with simulated() as provider, pytest.raises(anthropic.BadRequestError, match="non-whitespace"):
        say(provider, " ")
    (request,) = provider.requests
    assert (request.status, request.cost, request.tokens_fresh) == (400, 0.0, 0)


def test_time_stands_still_until_it_is_moved() -> None:
    with simulated() as provider:
        say(provider)
        provider.advance(299)
        say(provider)
        provider.advance(301)
        say(provider)
    assert [request.tokens_read > 0 for request in provider.requests] == [False, True, False]


def test_two_providers_share_nothing_and_a_reset_forgets() -> None:
    with simulated() as one, simulated() as other:
        say(one)
        assert one.url != other.url
        assert other.requests == []
        one.reset()
        assert (one.requests, one.cost) == ([], 0)
        assert say(one).usage.cache_read_input_tokens == 0


def test_options_are_those_of_the_settings() -> None:
    with simulated(rejected_key_prefix="simulated") as provider, pytest.raises(anthropic.AuthenticationError):
        say(provider)
    with pytest.raises(msgspec.ValidationError, match="do you mean seed"), simulated(sead=1):
        pass


def test_the_environment_is_what_the_sdks_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated() as provider:
        for name, value in provider.environment.items():
            monkeypatch.setenv(name, value)
        assert anthropic.Anthropic().models.list().data
        assert openai.OpenAI().models.list().data


def test_the_thread_ends_with_the_block_and_with_an_error() -> None:
    with pytest.raises(ZeroDivisionError), simulated() as provider:
        raise ZeroDivisionError
    assert "simulated provider" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(anthropic.APIConnectionError):
        say(provider)
