"""`lamella chat` with several models: each answer whole and under its model's name; one may fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from .program import run
from .test_chat_commands import _environment

FIRST, SECOND, REFUSED, ALSO_REFUSED = "claude-sonnet-5-5", "claude-haiku-5-5", "gpt-6-luna", "gpt-6.1-sol"


@pytest.fixture(scope="module")
def provider() -> Iterator[dict[str, str]]:
    """The simulator as both providers, of which one refuses its key; the environment that leads there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lamella_simulator", "--clock", "system", "--exit-with-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    url = msgspec.json.decode(process.stdout.readline())["simulator"]
    yield {
        "ANTHROPIC_API_KEY": "test",
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_API_KEY": "invalid-key",
        "OPENAI_BASE_URL": f"{url}/v1",
        "LAMELLA_TITLES": "off",
    }
    process.stdin.close()
    process.wait(timeout=10)


def chat(provider: dict[str, str], data: Path, *models: str) -> subprocess.CompletedProcess[str]:
    named = [part for model in models for part in ("--model", model)]
    return run("chat", "--data", str(data), *named, "Hello", environment=_environment() | provider)


def test_each_answer_stands_whole_under_its_name(provider: dict[str, str], tmp_path: Path) -> None:
    done = chat(provider, tmp_path, FIRST, REFUSED, SECOND)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line in (FIRST, REFUSED, SECOND)]
    assert lines == [FIRST, REFUSED, SECOND]
    first, rest = done.stdout.split(f"{REFUSED}\n")
    refused, second = rest.split(f"{SECOND}\n")
    assert refused.strip() == ""
    assert first.count("offline demonstration") == second.count("offline demonstration") == 1
    assert "401" in done.stderr


def test_one_model_is_not_named(provider: dict[str, str], tmp_path: Path) -> None:
    done = chat(provider, tmp_path, FIRST)
    assert done.returncode == 0
    assert FIRST not in done.stdout


def test_the_message_failed_when_all_models_did(provider: dict[str, str], tmp_path: Path) -> None:
    assert chat(provider, tmp_path, REFUSED, ALSO_REFUSED).returncode == 1


def test_too_many_and_twice_the_same_are_refused(provider: dict[str, str], tmp_path: Path) -> None:
    many = chat(provider, tmp_path, FIRST, SECOND, REFUSED, ALSO_REFUSED)
    assert (many.returncode, many.stdout) == (2, "")
    assert "one to three" in many.stderr
    twice = chat(provider, tmp_path, FIRST, FIRST)
    assert twice.returncode == 2
    assert "Traceback" not in twice.stderr


def test_an_answer_that_is_not_whole_says_so_and_what_to_do(provider: dict[str, str], tmp_path: Path) -> None:
    simulator = provider["ANTHROPIC_BASE_URL"]
    cut = {"cut": {"text": "It opens at nine.", "fault": {"kind": "max_tokens", "when": 8}}}
    httpx2.post(f"{simulator}/_sim/replies", json=cut, trust_env=False).raise_for_status()
    httpx2.post(f"{simulator}/_sim/settings", json={"default_reply": "cut"}, trust_env=False).raise_for_status()
    try:
        done = chat(provider, tmp_path, FIRST)
    finally:
        httpx2.post(f"{simulator}/_sim/settings", json={"default_reply": None}, trust_env=False)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "It opens")
    assert "The answer is not whole" in done.stderr
    assert "Ask it to go on" in done.stderr
