"""Programs as people run them, each with a model of another vendor than the one that they are made for."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamella.server.testing import served
from lamella.settings import read_settings
from lamella_simulator.provider import Provider

from .conftest import Door
from .test_agents import checked

pytestmark = [pytest.mark.anyio, pytest.mark.long]


async def notes_of(door: Door, line: dict[str, object]) -> list[str]:
    """The notes of the newest request of a line."""
    newest = (await door.requests(line))[-1]
    map = await door.client.get(f"/requests/{newest['id']}/map")
    return [note["text"] for note in map["notes"]]


async def test_claude_code_with_a_model_of_openai(door: Door) -> None:
    path = door.write("hello.txt", "The lamp is green.\n")
    door.calls("hello.txt", "Read", {"file_path": path})
    asked = ("--model", "gpt-6.1-terra", "--allowedTools", "Read")
    assert "lamp is green" in await door.run("claude-code", "-p", "What is in hello.txt?", *asked)
    await door.run("claude-code", "-c", "-p", "And the ships?", *asked)
    line = await checked(door, 2, 3)
    assert line["client"].startswith("Claude Code 2.")
    assert (line["dialect"], line["title"]) == ("openai", "What is in hello.txt?")
    assert (await notes_of(door, line))[0] == "Translated from Messages to Chat Completions."
    for one in (await door.requests(line))[1:]:
        assert one["usage"]["cache_read"] > 5_000


async def test_claude_code_sends_back_the_thinking_of_a_model_of_openai(provider: Provider, tmp_path: Path) -> None:
    path, home = tmp_path / "upstreams.toml", tmp_path / "home"
    home.mkdir()
    path.write_text(
        f'[[upstream]]\nname = "a"\nurl = "{provider.openai_url}"\nkey = "k"\ndialects = ["responses"]\n'
        'aliases = { "claude-*" = "gpt-6.1-terra" }\n'
    )
    async with served(read_settings(data=tmp_path / "data", upstreams=path)) as (app, client):
        door = Door(app, client, provider, home)
        file = door.write("hello.txt", "The lamp is green.\n")
        called = {"match": "hello.txt", "tool_calls": [{"name": "Read", "arguments": {"file_path": file}}]}
        said = {"match": "lamp is green", "text": "The lamp is green."}
        provider.script({"said": said, "called": {**called, "reasoning": "I have to read it."}})
        asked = ("--model", "claude-opus-5-5", "--allowedTools", "Read")
        assert "lamp is green" in await door.run("claude-code", "-p", "What is in hello.txt?", *asked)
        line = await checked(door, 1, 2)
        assert (line["dialect"], line["model"]) == ("responses", "gpt-6.1-terra")
        history = [item["type"] for item in provider.requests[-1].json["input"]]
        assert "reasoning" in history
        assert history.index("reasoning") < history.index("function_call")


async def test_codex_with_a_model_of_anthropic(door: Door) -> None:
    door.write("hello.txt", "The lamp is green.\n")
    door.calls("hello.txt", "exec_command", {"cmd": "cat hello.txt"})
    asked = ("--skip-git-repo-check", "-c", f'openai_base_url="{door.url}/v1"', "-m", "claude-opus-5-5")
    assert "lamp is green" in await door.run("codex", "exec", *asked, "What is in hello.txt?")
    await door.run("codex", "exec", "resume", "--last", *asked, "And the ships?")
    line = await checked(door, 2, 3)
    assert line["client"].startswith("Codex 0.")
    assert (line["dialect"], line["title"]) == ("anthropic", "What is in hello.txt?")
    assert (await notes_of(door, line))[0] == "Translated from Responses to Messages."
    for one in (await door.requests(line))[1:]:
        assert one["usage"]["cache_read"] == one["predicted"]["read"] > 1_000


async def test_codex_whose_model_is_an_alias_of_one_of_anthropic(provider: Provider, tmp_path: Path) -> None:
    """It sends the tools that it has for its vendor's newest models: a namespace with a custom one, as an item."""
    path, home = tmp_path / "upstreams.toml", tmp_path / "home"
    home.mkdir()
    path.write_text(
        f'[[upstream]]\nname = "a"\nurl = "{provider.url}"\nkey = "k"\ndialects = ["messages"]\n'
        'aliases = { "gpt-6.1-terra" = "claude-opus-5-5" }\n'
    )
    async with served(read_settings(data=tmp_path / "data", upstreams=path)) as (app, client):
        door = Door(app, client, provider, home)
        door.write("hello.txt", "The lamp is green.\n")
        code = "const r = await tools.exec_command({cmd: 'cat hello.txt'}); text(r.output ?? r);"
        door.calls("hello.txt", "functions__exec", {"input": code})
        asked = ("--skip-git-repo-check", "-c", f'openai_base_url="{door.url}/v1"', "-m", "gpt-6.1-terra")
        assert "lamp is green" in await door.run("codex", "exec", *asked, "What is in hello.txt?")
        await door.run("codex", "exec", "resume", "--last", *asked, "And the ships?")
        line = await checked(door, 2, 3)
        assert (line["dialect"], line["model"]) == ("anthropic", "claude-opus-5-5")


async def test_aider_with_a_model_of_anthropic(door: Door) -> None:
    path = door.write("hello.txt", "The lamp is green. " * 400)
    door.git("init")
    door.git("add", path)
    door.git("commit", "-m", "Begin")
    door.provider.script({"edit": {"match": "Make it red", "text": "hello.txt\n```\nThe lamp is red.\n```\n"}})
    asked = ("--model", "openai/claude-opus-5-5", "--edit-format", "whole", "--file", "hello.txt", "--yes-always")
    quiet = ("--no-pretty", "--no-fancy-input", "--no-check-update", "--no-analytics", "--no-show-model-warnings")
    await door.run("aider", *asked, "--no-gitignore", *quiet, typed="What is in hello.txt?\nMake it red.\n")
    assert (door.home / "hello.txt").read_text() == "The lamp is red.\n"
    line = await door.conversation()
    assert (line["dialect"], line["turns"]) == ("anthropic", 2)
    assert sum(one["cost"] for one in await door.lines()) == pytest.approx(door.provider.cost)
