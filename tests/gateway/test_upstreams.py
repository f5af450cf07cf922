"""Which upstream a request goes to, and under what name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamella.app.providers import Providers
from lamella.app.upstreams import UpstreamRow, Upstreams, read_upstreams
from lamella.core.errors import ConfigurationError, NotFound
from lamella.core.json import decode_object
from lamella.gateway.dialects import Dialect
from lamella.llm.model_table import ModelTable
from lamella.server.testing import served
from lamella.settings import read_settings
from lamella_simulator.provider import simulated

from .clients import Client
from .upstream_server import upstream_server

pytestmark = pytest.mark.anyio
FILE = """
[[upstream]]
name = "work"
url = "https://one.example"
key_variable = "WORK_KEY"
dialects = ["messages"]
models = ["claude-*"]
aliases = { "claude-haiku-*" = "claude-haiku-5-5", "fast" = "claude-haiku-5-5", "eu/*" = "claude-*" }

[[upstream]]
name = "home"
url = "https://two.example/v1"
dialects = ["chat", "responses"]
aliases = { "gpt-4o*" = "local*" }
"""


async def routed(tmp_path: Path, dialect: Dialect, model: str) -> tuple[str, str, str]:
    path = tmp_path / "upstreams.toml"
    path.write_text(FILE)
    upstreams = Upstreams(read_upstreams(path, {"WORK_KEY": "sk-1"}), None, ModelTable.shipped(), 1.0)
    route = await upstreams.find(dialect, model)
    return route.connection.base_url, route.model, route.key


async def test_the_first_that_fits_gets_it_under_its_name_there(tmp_path: Path) -> None:
    one, two = "https://one.example", "https://two.example/v1"
    messages, chat = Dialect.MESSAGES, Dialect.CHAT
    assert await routed(tmp_path, messages, "claude-opus-5-5") == (one, "claude-opus-5-5", "sk-1")
    assert await routed(tmp_path, messages, "claude-haiku-4-5-20251001") == (one, "claude-haiku-5-5", "sk-1")
    assert await routed(tmp_path, messages, "fast") == (one, "claude-haiku-5-5", "sk-1")
    assert await routed(tmp_path, messages, "eu/opus-5-5") == (one, "claude-opus-5-5", "sk-1")
    assert await routed(tmp_path, chat, "anything") == (two, "anything", "no-key")
    assert await routed(tmp_path, chat, "gpt-4o-mini") == (two, "local-mini", "no-key")
    for dialect, model in ((messages, "gpt-6.1-terra"), (Dialect.EMBEDDINGS, "anything")):
        with pytest.raises(NotFound, match="No upstream"):
            await routed(tmp_path, dialect, model)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[upstream]]\nname = 1", "Expected `str`"),
        ("[[upstream]]\nname = 'a'\nurl = 'x'\ndialects = []\nmodles = []", "unknown field `modles`"),
        ("[[upstream]]\nname = 'a'\nurl = 'x'\ndialects = ['smtp']", "Invalid enum value 'smtp'"),
        ("[[upstream]]\nname = 'a'\nurl = 'x'\ndialects = ['chat']", "“x” of “a” is no HTTP address"),
        ("[[upstream]]\nname='a'\nurl='http://x'\ndialects=['chat']\nkey_variable='NO'", "NO is empty"),
        ("[[upstream]]\nname='a'\nurl='http://x'\ndialects=['chat']\nprices={x={input=-1}}", "Expected `float` >= 0"),
        ("[[upstream]]\nname='a'\nurl='http://x'\ndialects=['chat']\nprices={x={cache=1}}", "unknown field `cache`"),
        ("[[", "Invalid"),
    ],
)
def test_a_file_that_can_not_be_used_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "upstreams.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=said) as caught:
        read_upstreams(path, {})
    assert str(path) in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"can't be read: No such file"):
        read_upstreams(tmp_path / "no.toml", {})


@pytest.mark.parametrize(
    ("pattern", "model", "fits"),
    [("*", "x", True), ("a*b", "axxb", True), ("a*b", "ab", True), ("a*b", "aba", False), ("a.c", "abc", False)],
)
def test_a_star_stands_for_anything_and_nothing_else_does(pattern: str, model: str, fits: bool) -> None:
    row = UpstreamRow(name="a", url="http://a", dialects=("chat",), models=(pattern,))
    assert (row.named(model) is not None) is fits


async def test_a_request_goes_on_under_the_name_of_the_upstream(tmp_path: Path) -> None:
    async with upstream_server() as upstream:
        path = tmp_path / "upstreams.toml"
        path.write_text(
            f'[[upstream]]\nname = "a"\nurl = "{upstream.url}"\nkey = "sk-9"\ndialects = ["messages"]\n'
            'aliases = { "claude-*" = "own-*" }\n'
        )
        settings = read_settings(data=tmp_path / "data", upstreams=path)
        async with served(settings, checked=False) as (_, client):
            body = b'{ "z": 1, "model": "claude-x", "messages": [] }'
            answer = await client.http.post("/v1/messages", content=body, headers={"x-lamella-markers": "off"})
            assert answer.status_code == 200
        [got] = upstream.got
        assert got.body == b'{ "z": 1, "model": "own-x", "messages": [] }'
        assert got.headers["authorization"] == "Bearer sk-9"


# Across dialects


async def spoken_to(tmp_path: Path, dialect: Dialect, model: str, **keys: str) -> tuple[Dialect, str]:
    """The dialect and the path of a request, of a server whose providers have these keys and addresses."""
    settings = read_settings(data=tmp_path / "data", **keys)
    table = ModelTable.shipped()
    upstreams = Upstreams((), Providers(settings, table), table, 1.0)
    route = await upstreams.find(dialect, model)
    return route.dialect, f"{route.connection.base_url}{route.path}"


ANTHROPIC: dict[str, str] = {"anthropic_api_key": "sk-a"}
OPENAI: dict[str, str] = {"openai_api_key": "sk-o"}
HOME: dict[str, str] = {"openai_base_url": "http://home.example/v1"}
MESSAGES = (Dialect.MESSAGES, "https://api.anthropic.com/v1/messages")
RESPONSES = (Dialect.RESPONSES, "https://api.openai.com/v1/responses")


@pytest.mark.parametrize(
    ("dialect", "model", "keys", "goes_to"),
    [
        (Dialect.CHAT, "claude-opus-5-5", ANTHROPIC, MESSAGES),
        (Dialect.RESPONSES, "claude-opus-5-5", ANTHROPIC | OPENAI, MESSAGES),
        (Dialect.MESSAGES, "gpt-6.1-terra", OPENAI, RESPONSES),
        (Dialect.MESSAGES, "gpt-6.1-terra", ANTHROPIC | OPENAI, RESPONSES),
        (Dialect.MESSAGES, "gpt-6.1-terra", HOME, (Dialect.CHAT, "http://home.example/v1/chat/completions")),
        (Dialect.MESSAGES, "qwen3", HOME, (Dialect.CHAT, "http://home.example/v1/chat/completions")),
        (Dialect.MESSAGES, "qwen3", HOME | ANTHROPIC, MESSAGES),
        (Dialect.CHAT, "qwen3", HOME | ANTHROPIC, (Dialect.CHAT, "http://home.example/v1/chat/completions")),
        (Dialect.MESSAGES, "claude-opus-5-5", ANTHROPIC | OPENAI, MESSAGES),
        (Dialect.RESPONSES, "gpt-6.1-terra", ANTHROPIC | OPENAI, RESPONSES),
    ],
)
async def test_a_model_of_another_vendor_goes_to_its_own(
    tmp_path: Path, dialect: Dialect, model: str, keys: dict[str, str], goes_to: tuple[Dialect, str]
) -> None:
    assert await spoken_to(tmp_path, dialect, model, **keys) == goes_to


@pytest.mark.parametrize(
    ("dialect", "model", "keys"),
    [
        (Dialect.MESSAGES, "claude-opus-5-5", OPENAI),
        (Dialect.CHAT, "gpt-6.1-terra", ANTHROPIC),
        (Dialect.EMBEDDINGS, "claude-opus-5-5", ANTHROPIC),
    ],
)
async def test_a_model_whose_vendor_has_no_key_is_not_found(
    tmp_path: Path, dialect: Dialect, model: str, keys: dict[str, str]
) -> None:
    with pytest.raises(NotFound, match="No upstream"):
        await spoken_to(tmp_path, dialect, model, **keys)


async def test_an_upstream_of_the_file_gets_other_dialects_for_the_models_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "upstreams.toml"
    path.write_text(
        '[[upstream]]\nname = "any"\nurl = "https://a.example"\ndialects = ["messages"]\n'
        '[[upstream]]\nname = "home"\nurl = "https://b.example/v1"\ndialects = ["embeddings", "chat", "responses"]\n'
        'models = ["qwen*"]\naliases = { "claude-haiku-*" = "qwen3" }\n'
    )
    upstreams = Upstreams(read_upstreams(path, {}), None, ModelTable.shipped(), 1.0)
    own = await upstreams.find(Dialect.RESPONSES, "qwen3")
    assert (own.dialect, own.path) == (Dialect.RESPONSES, "/responses")
    own = await upstreams.find(Dialect.MESSAGES, "claude-haiku-4-5")
    assert (own.dialect, own.model) == (Dialect.MESSAGES, "claude-haiku-4-5"), "its own dialect comes first"
    for dialect in (Dialect.CHAT, Dialect.EMBEDDINGS):
        with pytest.raises(NotFound):
            await upstreams.find(dialect, "claude-opus-5-5")
    path.write_text(path.read_text().replace('dialects = ["messages"]', 'dialects = ["messages"]\nmodels = ["opus*"]'))
    upstreams = Upstreams(read_upstreams(path, {}), None, ModelTable.shipped(), 1.0)
    other = await upstreams.find(Dialect.MESSAGES, "claude-haiku-4-5")
    assert (other.dialect, other.model, other.path) == (Dialect.CHAT, "qwen3", "/chat/completions")
    other = await upstreams.find(Dialect.CHAT, "opus-9")
    assert (other.dialect, other.path) == (Dialect.MESSAGES, "/v1/messages")


SEVERAL = """
[[upstream]]
name = "first"
url = "{anthropic}"
key_variable = "FIRST_KEY"
dialects = ["messages"]
models = ["claude-*"]
aliases = {{ "work/*" = "claude-*" }}
prices = {{ "claude-opus-*" = {{ input = 8, output = 40 }}, "claude-opus-5-5" = {{ input = 4.4, output = 22 }} }}

[[upstream]]
name = "second"
url = "{anthropic}"
key = "sk-second"
dialects = ["messages"]
models = ["claude-*", "other-*"]

[[upstream]]
name = "openai"
url = "{openai}"
key = "sk-openai"
dialects = ["chat", "responses"]
models = ["gpt-*"]

[[upstream]]
name = "away"
url = "http://127.0.0.1:9/v1"
dialects = ["chat"]
models = ["away-*"]

[[upstream]]
name = "vllm"
url = "{local}/v1"
dialects = ["chat"]
aliases = {{ "qwen" = "Qwen/Qwen3-Coder" }}
prices = {{ "*" = {{ input = 0.2, output = 0.8, read = 0.5 }} }}
"""

LOCAL = (
    b'{"id":"chatcmpl-1","model":"Qwen/Qwen3-Coder","choices":[{"index":0,"finish_reason":"stop","message":{"role":'
    b'"assistant","content":"Yes."}}],"usage":{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,'
    b'"prompt_tokens_details":{"cached_tokens":600}}}'
)


async def test_what_a_break_costs_is_told_in_the_prices_of_the_upstream_that_served_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the line, live, and whenever it is asked for again; half the price of the model table is half the loss."""
    monkeypatch.setenv("FIRST_KEY", "sk-first")
    lost: list[float] = []
    for price in ("input = 4, output = 20", "input = 2, output = 10"):
        with simulated() as provider:
            path, data = tmp_path / "upstreams.toml", tmp_path / price[:9].replace(" ", "")
            path.write_text(
                f"[[upstream]]\nname = 'a'\nurl = '{provider.url}'\nkey_variable = 'FIRST_KEY'\n"
                "dialects = ['messages']\n"
                f"prices = {{ 'claude-*' = {{ {price} }} }}\n"
            )
            async with served(read_settings(data=data, upstreams=path)) as (app, client):
                talking = Client("messages", marks=True)
                await talking.send(client.http, "Hello there")
                await talking.send(client.http, "And the ships?")
                talking.tools[2]["description"] += " Now."
                await talking.send(client.http, "Thank you")
                await app.gateway.recorder.drain()
                [line] = (await client.get("/lines"))["data"]
                why = await client.get(f"/requests/{line['request_id']}/why")
                assert why["lost_cost"] == pytest.approx(line["lost_cost"])
                lost.append(why["lost_cost"])
    assert lost[1] > 0
    assert lost[0] == pytest.approx(2 * lost[1])


async def test_several_upstreams_each_with_its_key_its_models_and_its_prices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRST_KEY", "sk-first")
    with simulated(rejected_key_prefix="sk-second") as provider:
        async with upstream_server() as local:
            path = tmp_path / "upstreams.toml"
            local.pieces = [LOCAL]
            path.write_text(SEVERAL.format(anthropic=provider.url, openai=provider.openai_url, local=local.url))
            async with served(read_settings(data=tmp_path / "data", upstreams=path)) as (app, client):
                for door, model, status in (
                    ("messages", "claude-opus-5-5", 200),
                    ("messages", "work/opus-5-5", 200),
                    ("messages", "claude-sonnet-5-5", 200),
                    ("messages", "other-1", 401),
                    ("chat/completions", "gpt-6.1-terra", 200),
                    ("chat/completions", "away-1", 502),
                    ("chat/completions", "qwen", 200),
                ):
                    said = [{"role": "user", "content": f"Hello, {model}"}]
                    asked: dict[str, Any] = {"model": model, "max_tokens": 50, "messages": said}
                    answer = await client.http.post(f"/v1/{door}", json=asked)
                    assert answer.status_code == status, (model, answer.text)
                await app.gateway.recorder.drain()
                lines = (await client.get("/lines"))["data"]
    costs: dict[str, float] = {}
    for line in lines:
        costs[line["model"]] = costs.get(line["model"], 0.0) + line["cost"]
    bills = {record.model: record for record in provider.requests if record.status == 200}
    opus = [record for record in provider.requests if record.model == "claude-opus-5-5"]
    assert costs["claude-opus-5-5"] == pytest.approx(sum(record.cost for record in opus) * 1.1)
    for name in ("claude-sonnet-5-5", "gpt-6.1-terra"):
        assert costs[name] == pytest.approx(bills[name].cost)
    assert costs["Qwen/Qwen3-Coder"] == pytest.approx((400 * 0.2 + 600 * 0.1 + 100 * 0.8) / 1e6)
    assert costs["other-1"] == costs["away-1"] == 0
    assert decode_object(local.got[0].body)["model"] == "Qwen/Qwen3-Coder"
