"""A model that the table does not have: it answers, and everybody who uses it is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

import lamella.cli.chat  # noqa: F401 (registers the command)
from lamella.cli.main import cli
from lamella.server.testing import served
from lamella.settings import read_settings
from lamella_simulator.testing import running

pytestmark = pytest.mark.anyio

UNKNOWN = "openai:lamella-demo"
"""The simulator speaks both protocols for it; the table has it as Anthropic's alone."""

SAID = "The model table does not know “lamella-demo”"


def own(folder: Path) -> Path:
    path = folder / "models.json"
    row = {"name": "lamella-demo", "provider": "openai", "window": 65_536, "price": {"input": 3, "read": 0.25}}
    path.write_text(json.dumps({"models": [row]}))
    return path


async def test_it_answers_and_everybody_is_told(tmp_path: Path) -> None:
    with running() as url:
        at = {"openai_base_url": f"{url}/v1", "openai_api_key": SecretStr("any"), "model": UNKNOWN}
        async with served(read_settings(data=tmp_path, **at)) as (_, client):
            conversation = await client.conversation()
            packets = await client.send(conversation, "Hello there.")
            status = await client.post(f"/conversations/{conversation}/commands", {"text": "/status"})
            listed = (await client.get("/models"))["data"][0]
            other = (await client.get("/models?also=somebody/else-7b"))["data"][-1]
        [began] = [packet for packet in packets if packet["type"] == "run.started"]
        assert packets[-1]["status"] == "finished"
        assert SAID in began["caution"]
        assert SAID in status["answer"]
        assert SAID in listed["caution"]
        assert "“somebody/else-7b”" in other["caution"]
        # Its row in a file of one's own ends that, and is what is reckoned with.
        async with served(read_settings(data=tmp_path, models=own(tmp_path), **at)) as (_, client):
            packets = await client.send(conversation, "And now?")
        [began] = [packet for packet in packets if packet["type"] == "run.started"]
        [request] = [packet for packet in packets if packet["type"] == "request.started"]
        usage = packets[-2]["usage"]
        assert began["caution"] is None
        assert request["budget"] < 65_536
        fresh = usage["input"] - usage["cache_read"]
        assert packets[-2]["cost"] == pytest.approx((fresh + usage["cache_read"] * 0.25) * 3 / 1_000_000, rel=0.02)


def test_the_terminal_says_it_once(tmp_path: Path) -> None:
    with running() as url, pytest.MonkeyPatch.context() as patched:
        for name, value in {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "any", "LAMELLA_MODEL": UNKNOWN}.items():
            patched.setenv(name, value)
        said = CliRunner().invoke(cli, ["chat", "Hello there.", "--data", str(tmp_path)])
    assert said.exit_code == 0, said.output
    assert said.stderr.count(SAID) >= 1
    assert len([line for line in said.stderr.splitlines() if line.startswith(SAID)]) == 1
