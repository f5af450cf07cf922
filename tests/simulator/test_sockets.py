"""Over a real socket: both official SDKs, the process itself, dropped connections and pacing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import anthropic
import openai
import pytest

from lamella_simulator.testing import running

from .texts import at, tokens

MODEL = "claude-opus-5-5"


def post(url: str, value: object) -> Any:
    with urlopen(Request(url, json.dumps(value).encode(), {"content-type": "application/json"})) as response:
        return json.load(response)


@pytest.fixture
def simulator(address: str) -> str:
    post(f"{address}/_sim/reset", {})
    return address


@pytest.fixture
def claude(simulator: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(api_key="test", base_url=simulator, max_retries=0) as client:
        yield client


@pytest.fixture
def gpt(simulator: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="test", base_url=f"{simulator}/v1", max_retries=0) as client:
        yield client


def script(simulator: str, **replies: object) -> None:
    post(f"{simulator}/_sim/replies", replies)


def rules(reply: str, minute: float = 0) -> dict[str, str]:
    return {"x-sim-reply": reply, "x-sim-now": at(minute)}


CALLS = [{"id": "c1", "name": "search", "arguments": {"query": "ünïcode ✓"}}]


def test_the_anthropic_sdk_reads_a_stream(simulator: str, claude: anthropic.Anthropic) -> None:
    script(simulator, r={"text": "Straße 東京 🙂 done.", "reasoning": "hm", "tool_calls": CALLS, "chunk": 3})
    with claude.messages.stream(
        model=MODEL,
        max_tokens=1_000,
        system=[{"type": "text", "text": tokens(1_000), "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        messages=[{"role": "user", "content": "go"}],
        extra_headers=rules("r"),
    ) as stream:
        message = stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    assert message.content[1].to_dict()["text"] == "Straße 東京 🙂 done."
    assert message.content[2].to_dict()["input"] == {"query": "ünïcode ✓"}
    assert message.stop_reason == "tool_use"
    assert message.usage.cache_creation is not None
    assert message.usage.cache_creation.ephemeral_1h_input_tokens == 1_400
    assert message.usage.output_tokens_details is not None
    assert message.usage.output_tokens_details.thinking_tokens > 0
    assert stream.request_id is not None


def test_the_anthropic_sdk_goes_through_a_tool_loop(simulator: str, claude: anthropic.Anthropic) -> None:
    """What the SDK gives back of its own messages passes the prefix check."""
    script(
        simulator,
        call={"text": "Looking.", "reasoning": "search", "tool_calls": CALLS},
        end={"text": "Found.", "reasoning": "that is it"},
    )
    messages: list[Any] = [{"role": "user", "content": "go"}]
    first = claude.messages.create(model=MODEL, max_tokens=100, messages=messages, extra_headers=rules("call"))
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "here"}
    messages += [first.to_param(), {"role": "user", "content": [result]}]
    second = claude.messages.create(model=MODEL, max_tokens=100, messages=messages, extra_headers=rules("end", 1))
    messages += [second.to_param(), {"role": "user", "content": "thanks"}]
    third = claude.messages.create(model=MODEL, max_tokens=100, messages=messages, extra_headers=rules("end", 2))
    assert third.stop_reason == "end_turn"


def test_the_anthropic_sdk_reports_input_transformations(simulator: str, claude: anthropic.Anthropic) -> None:
    script(simulator, r={"text": "ok", "reasoning": "hm"})
    first = claude.messages.create(
        model=MODEL, max_tokens=100, messages=[{"role": "user", "content": "go"}], extra_headers=rules("r")
    )
    changed: list[Any] = [
        {"role": "user", "content": "GO"},
        first.to_param(),
        {"role": "user", "content": "next"},
    ]
    message = claude.beta.messages.create(
        model=MODEL,
        max_tokens=100,
        messages=changed,
        thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
        betas=["thinking-binding-controls-2026-08-01"],
    )
    assert message.input_transformations is not None
    assert [entry.path for entry in message.input_transformations] == ["messages.1.content.0"]
    with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
        claude.messages.create(model=MODEL, max_tokens=100, messages=changed)


def test_the_anthropic_sdk_raises_its_own_errors(simulator: str, claude: anthropic.Anthropic) -> None:
    ask: Any = {"model": MODEL, "max_tokens": 10, "messages": [{"role": "user", "content": "a"}]}
    script(
        simulator,
        busy={"fault": {"kind": 529}},
        limit={"fault": {"kind": 429}},
        middle={"text": "0123456789", "fault": {"kind": "stream_error", "when": 5}},
    )
    with pytest.raises(anthropic.APIStatusError) as caught:
        claude.messages.create(**ask, extra_headers=rules("busy"))
    assert (caught.value.status_code, caught.value.type) == (529, "overloaded_error")
    with pytest.raises(anthropic.RateLimitError):
        claude.messages.create(**ask, extra_headers=rules("limit"))
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.create(**{**ask, "model": "nobody"})
    with pytest.raises(anthropic.AuthenticationError):
        claude.with_options(api_key="invalid").messages.create(**ask)
    with (
        pytest.raises(anthropic.APIStatusError, match="Overloaded"),
        claude.messages.stream(**ask, extra_headers=rules("middle")) as stream,
    ):
        stream.until_done()


def test_the_anthropic_sdk_retries_what_passes(simulator: str, claude: anthropic.Anthropic) -> None:
    script(simulator, r={"text": "ok", "fault": {"kind": 529, "retry_after": 0.01, "times": 2}})
    message = claude.with_options(max_retries=2).messages.create(
        model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "a"}], extra_headers=rules("r")
    )
    assert message.content[0].to_dict()["text"] == "ok"


def test_the_anthropic_sdk_counts_and_lists(claude: anthropic.Anthropic) -> None:
    counted = claude.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": tokens(1_000)}])
    assert counted.input_tokens == 1_404
    assert "lamella-demo" in [model.id for model in claude.models.list()]


def test_the_openai_sdk_reads_a_stream(simulator: str, gpt: openai.OpenAI) -> None:
    script(simulator, r={"text": "Straße 東京 🙂 done.", "tool_calls": CALLS, "chunk": 3})
    with gpt.chat.completions.stream(
        model="gpt-5.6",
        messages=[{"role": "developer", "content": tokens(2_000)}, {"role": "user", "content": "go"}],
        stream_options={"include_usage": True},
        extra_headers=rules("r"),
    ) as stream:
        completion = stream.get_final_completion()
    message = completion.choices[0].message
    assert message.content == "Straße 東京 🙂 done."
    assert message.tool_calls is not None
    assert json.loads(message.tool_calls[0].function.arguments) == {"query": "ünïcode ✓"}
    assert completion.choices[0].finish_reason == "tool_calls"
    assert completion.usage is not None
    assert completion.usage.prompt_tokens_details is not None
    assert completion.usage.prompt_tokens_details.cache_write_tokens == completion.usage.prompt_tokens


def test_the_openai_sdk_raises_its_own_errors(simulator: str, gpt: openai.OpenAI) -> None:
    ask: Any = {"model": "gpt-5.6", "messages": [{"role": "user", "content": "a"}]}
    script(
        simulator,
        limit={"fault": {"kind": 429}},
        down={"fault": {"kind": 500}},
        middle={"text": "0123456789", "fault": {"kind": "stream_error", "when": 5}},
    )
    with pytest.raises(openai.RateLimitError):
        gpt.chat.completions.create(**ask, extra_headers=rules("limit"))
    with pytest.raises(openai.InternalServerError):
        gpt.chat.completions.create(**ask, extra_headers=rules("down"))
    with pytest.raises(openai.NotFoundError):
        gpt.chat.completions.create(**{**ask, "model": "nobody"})
    with pytest.raises(openai.APIError, match="Overloaded"):
        list(gpt.chat.completions.create(**ask, stream=True, extra_headers=rules("middle")))
    assert "gpt-5.6" in [model.id for model in gpt.models.list()]


@pytest.mark.parametrize(("when", "seen"), [(0, ""), (5, "01234")])
def test_a_connection_dropped_after_the_first_byte(
    simulator: str, claude: anthropic.Anthropic, when: int, seen: str
) -> None:
    script(simulator, r={"text": "0123456789", "chunk": 2, "fault": {"kind": "drop_after", "when": when}})
    pieces: list[str] = []
    ask: Any = {"model": "claude-opus-5", "max_tokens": 10, "messages": [{"role": "user", "content": "a"}]}
    with (
        claude.messages.stream(**ask, extra_headers=rules("r")) as stream,
        pytest.raises(Exception, match="peer closed connection"),
    ):
        pieces.extend(stream.text_stream)
    assert "".join(pieces) == seen


def test_a_connection_dropped_before_the_first_byte(simulator: str, claude: anthropic.Anthropic) -> None:
    script(simulator, r={"text": "ok", "fault": {"kind": "drop_before"}})
    ask: Any = {"model": MODEL, "max_tokens": 10, "messages": [{"role": "user", "content": "a"}]}
    with pytest.raises(anthropic.APIConnectionError):
        claude.messages.create(**ask, extra_headers=rules("r"))
    assert claude.messages.create(**ask, extra_headers=rules("r")).content[0].to_dict()["text"] == "ok"


def test_a_reader_who_leaves_stops_the_stream() -> None:
    with running("--clock", "system") as url:
        script(url, r={"text": "0123456789" * 100, "chunk": 10})
        with anthropic.Anthropic(api_key="test", base_url=url) as client:
            ask: Any = {"model": "claude-opus-5", "max_tokens": 1_000, "messages": [{"role": "user", "content": "a"}]}
            headers = {"x-sim-reply": "r", "x-sim-rate": "500"}
            with client.messages.stream(**ask, extra_headers=headers) as stream:
                next(iter(stream.text_stream))
        deadline = time.monotonic() + 2
        streamed = -1
        while time.monotonic() < deadline:
            with urlopen(f"{url}/_sim/requests") as response:
                (request,) = json.load(response)["requests"]
            if request["streamed"] == streamed:
                break
            streamed = request["streamed"]
            time.sleep(0.1)
        assert not request["finished"]
        assert 0 < streamed < 300


def test_system_time_paces_the_stream() -> None:
    with running("--clock", "system", "--rate", "1000") as url:
        script(url, r={"text": "0123456789" * 20, "chunk": 10, "ttft_ms": 100})
        with anthropic.Anthropic(api_key="test", base_url=url) as client:
            started = time.monotonic()
            ask: Any = {"model": "claude-opus-5", "max_tokens": 1_000, "messages": [{"role": "user", "content": "a"}]}
            client.messages.create(**ask, extra_headers={"x-sim-reply": "r"})
            assert time.monotonic() - started > 0.25


def test_an_answer_that_streams_takes_a_new_pace() -> None:
    with running("--clock", "system", "--rate", "100") as url:
        script(url, r={"text": "0123456789" * 1_000, "chunk": 10})
        with anthropic.Anthropic(api_key="test", base_url=url) as client:
            ask: Any = {"model": "claude-opus-5", "max_tokens": 10_000, "messages": [{"role": "user", "content": "a"}]}
            with client.messages.stream(**ask, extra_headers={"x-sim-reply": "r"}) as stream:
                next(iter(stream.text_stream))
                started = time.monotonic()
                post(f"{url}/_sim/settings", {"rate": 0})
                stream.until_done()
                assert time.monotonic() - started < 50, "the rest would take 100 seconds"


def test_the_process_says_one_line_and_ends_on_a_signal() -> None:
    command = [sys.executable, "-m", "lamella_simulator"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["simulator"]
        with urlopen(f"{url}/_sim/clock") as response:
            assert json.load(response)["mode"] == "virtual"
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=5)
    assert (rest, errors) == (b"", b"")
    assert process.returncode in (0, -signal.SIGTERM)


def test_the_process_ends_when_its_stdin_closes() -> None:
    command = [sys.executable, "-m", "lamella_simulator", "--exit-with-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdin.close()
        assert process.wait(timeout=5) == 0


def test_options_are_checked_at_the_start() -> None:
    command = [sys.executable, "-m", "lamella_simulator", "--option"]
    for option in ("no_such=1", "max_markers=many"):
        done = subprocess.run([*command, option], capture_output=True, timeout=10, check=False)
        assert done.returncode == 2
        assert b"lamella_simulator:" in done.stderr
    with (
        running("--option", "max_markers=5", "--option", "prefix_check_enforced=false") as url,
        urlopen(f"{url}/_sim/settings") as response,
    ):
        settings = json.load(response)
    assert (settings["max_markers"], settings["prefix_check_enforced"]) == (5, False)
