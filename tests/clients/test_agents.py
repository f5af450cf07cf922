"""Programs as people run them: Claude Code, Codex, opencode and aider on files, and llm in a terminal."""

from __future__ import annotations

import json

import pytest

from .conftest import ADDRESS, Door, Object, is_told, shown

pytestmark = [pytest.mark.anyio, pytest.mark.long]


async def checked(door: Door, turns: int, requests: int, breaks: int = 0) -> Object:
    """The one conversation, which has so many turns and requests; all lines together cost what was billed."""
    line = await door.conversation()
    assert (line["turns"], line["requests"], line["breaks"]) == (turns, requests, breaks)
    bill = sum(one["cost"] for one in await door.lines())
    assert bill == pytest.approx(door.provider.cost)
    assert bill > 0
    return line


async def test_claude_code(door: Door) -> None:
    """What changes around a session is appended to it; another list of tools writes all of it again."""
    path = door.write("hello.txt", "The lamp is green.\n")
    door.calls("hello.txt", "Read", {"file_path": path})
    asked = ("--model", "claude-opus-5-5", "--allowedTools", "Read")
    assert "lamp is green" in await door.run("claude-code", "-p", "What is in hello.txt?", *asked)
    door.git("init")
    await door.run("claude-code", "-c", "-p", "And the ships?", *asked)
    line = await checked(door, 2, 3)
    assert line["client"].startswith("Claude Code 2.")
    assert (line["title"], bool(line["session"])) == ("What is in hello.txt?", True)
    assert all(one["usage"]["cache_read"] > 10_000 for one in (await door.requests(line))[1:])
    await door.run("claude-code", "-c", "-p", "Thank you", *asked, "--disallowedTools", "WebFetch,Workflow")
    line = await checked(door, 3, 4, breaks=1)
    *_, newest = await door.why(line)
    assert (newest["cause"], newest["by"]) == ("tools", "tools"), newest["text"]
    assert "from “Tools” on the window is another (tool Workflow, " in newest["text"]
    assert "a tool was left out" in newest["text"]


async def test_codex(door: Door) -> None:
    """Its tools are an item and take a program; another effort writes all of the conversation again."""
    door.write("hello.txt", "The lamp is green.\n")
    code = "const r = await tools.exec_command({cmd: 'cat hello.txt'}); text(r.output ?? r);"
    door.calls("hello.txt", "exec", {"input": code})
    asked = ("--skip-git-repo-check", "-c", f'openai_base_url="{door.url}/v1"', "-m", "gpt-6.1-terra")
    assert "lamp is green" in await door.run("codex", "exec", *asked, "What is in hello.txt?")
    await door.run("codex", "exec", "resume", "--last", *asked, "And the ships?")
    line = await checked(door, 2, 3)
    assert line["client"].startswith("Codex 0.")
    assert (line["title"], bool(line["session"])) == ("What is in hello.txt?", True)
    for one in (await door.requests(line))[1:]:
        assert one["usage"]["cache_read"] == one["predicted"]["read"] > 10_000
    await door.run("codex", "exec", "resume", "--last", *asked, "-c", 'model_reasoning_effort="high"', "Thank you")
    line = await checked(door, 3, 4, breaks=1)
    *_, newest = await door.why(line)
    assert "the thinking effort was changed from low to high" in newest["text"]


async def test_opencode(door: Door) -> None:
    """It asks another model for a title under the id of its session; another agent has other tools."""
    path = door.write("hello.txt", "The lamp is green.\n")
    door.calls("hello.txt.*\\Z", "read", {"filePath": path})
    [told] = shown("opencode", "json")
    door.write("opencode.json", json.dumps(json.loads(told.replace(ADDRESS, door.url)) | {"autoupdate": False}))
    await door.follow("opencode", "opencode", only=slice(0, 2))
    line = await checked(door, 2, 3)
    [title] = [one for one in await door.lines() if one["id"] != line["id"]]
    assert (title["label"], title["session"]) == ("title", line["session"])
    assert title["model"].startswith("claude-haiku")
    assert line["client"].startswith("opencode 1.")
    await door.follow("opencode", "opencode", only=slice(2, 3))
    line = await checked(door, 3, 4, breaks=1)
    *_, newest = await door.why(line)
    assert newest["cause"] == "tools"
    assert is_told("opencode", newest["text"]), newest["text"]


async def test_aider(door: Door) -> None:
    """Its reminder stands in the newest message alone, so that each turn writes all of the files again."""
    path = door.write("hello.txt", "The lamp is green. " * 400)
    door.git("init")
    door.git("add", path)
    door.git("commit", "-m", "Begin")
    door.provider.script({"edit": {"match": "Make it red", "text": "hello.txt\n```\nThe lamp is red.\n```\n"}})
    asked = ("--model", "openai/gpt-6.1-terra", "--file", "hello.txt", "--yes-always", "--no-gitignore")
    quiet = ("--no-pretty", "--no-fancy-input", "--no-check-update", "--no-analytics", "--no-show-model-warnings")
    typed = "What is in hello.txt?\nMake it red.\nThank you\n"
    await door.run("aider", *asked, *quiet, typed=typed)
    assert (door.home / "hello.txt").read_text() == "The lamp is red.\n"
    line = await checked(door, 3, 3, breaks=2)
    assert [one["label"] for one in await door.lines() if one["id"] != line["id"]] == ["commit message"]
    _, reminded, edited = await door.why(line)
    assert "from “Message 9 (user)” on the window is another" in reminded["text"]
    assert "from “Message 7 (user)” on the window is another" in edited["text"]


async def test_llm(door: Door) -> None:
    """It names no session: the messages alone make its commands one conversation, with the tools of the first."""
    door.environment["LLM_USER_PATH"] = str(door.home)
    [told] = shown("llm", "yaml")
    door.write("extra-openai-models.yaml", told.replace(ADDRESS, door.url))
    door.provider.script({"lamp": {"match": "How is the lamp", "text": "It is green, and it burns. " * 200}})
    await door.follow("llm", "llm")
    line = await checked(door, 3, 3)
    assert (line["title"], line["session"]) == ("How is the lamp?", None)
    for sent in door.provider.requests:
        assert [tool["function"]["name"] for tool in sent.json["tools"]] == ["llm_time"]
        assert sent.json["messages"][0] == {"role": "system", "content": "You know lamps."}
    _, written, newest = await door.requests(line)
    assert newest["usage"]["cache_read"] == newest["predicted"]["read"] == written["usage"]["cache_write"] > 1_000
