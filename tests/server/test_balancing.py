"""A balancer is told whether a server takes work, and a server that ends lets its turns come to their end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from cut_connections import proxied
from lamella.app.app import App
from lamella.core.errors import ConfigurationError
from lamella.llm.scripted import Gate, ReplayEvent, ScriptedModel, ScriptedModels, saying
from lamella.server.balancing import is_within, read_proxies
from lamella.server.connections import DEFAULT, Limits
from lamella.server.testing import ServerClient, authentication_of, client, served, serving
from lamella.server.web import create_web
from lamella.settings import read_settings
from lamella.storage.postgresql import AWAY_AT_THE_END
from lamella_simulator.testing import running
from postgres import PostgresServer

from .processes import lamella, started

pytestmark = pytest.mark.anyio

STORY = "It was a dark and stormy night, and the rain fell in torrents, but for some gusts of wind. " * 2


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """A provider that takes about three seconds to tell a story."""
    with running("--clock", "system", "--rate", "20", "--option", "default_reply=story") as url:
        httpx2.post(f"{url}/_sim/replies", json={"story": {"text": STORY, "chunk": 5}}, trust_env=False)
        yield url


def half(gate: Gate) -> list[ReplayEvent]:
    """Words that wait for a gate in their middle."""
    first, *rest = saying("Half", " and whole.")
    return [first, gate, *rest]


async def test_a_server_that_can_work_is_ready(client: ServerClient) -> None:
    answer = await client.http.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ready", "checks": {"database": "ok", "disk": "ok", "worker": "ok"}}


async def test_a_closed_database_and_an_ended_worker_are_named(app: App, client: ServerClient) -> None:
    await app.store.close()
    answer = await client.http.get("/readyz")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    told = answer.json()
    assert (told["status"], told["checks"]["database"]) == ("not_ready", "unavailable")
    assert (told["error"]["code"], told["error"]["param"]) == ("overloaded", "database")
    assert str(app.settings.data) not in answer.text
    assert (await client.http.get("/healthz")).status_code == 200


async def test_looks_are_kept_for_a_second(app: App, client: ServerClient) -> None:
    assert (await client.http.get("/readyz")).status_code == 200
    await app.store.close()
    assert (await client.http.get("/readyz")).status_code == 200
    await asyncio.sleep(1.05)
    assert (await client.http.get("/readyz")).status_code == 503


async def test_an_ended_worker_is_named(app: App, client: ServerClient) -> None:
    await app.knowledge.ingestion.close()
    assert (await client.http.get("/readyz")).json()["checks"]["worker"] == "stopped"


DOORS = (
    ("/v1/messages", {"type": "error", "error": {"type": "overloaded_error"}}),
    ("/v1/chat/completions", {"error": {"type": "server_error", "code": "server_is_overloaded"}}),
    ("/v1/responses", {"error": {"type": "server_error", "code": "server_is_overloaded"}}),
    ("/api/v1/conversations", {"error": {"type": "ServerStopping", "code": "overloaded"}}),
    ("/api/v1/ag-ui", {"error": {"type": "ServerStopping", "code": "overloaded"}}),
)


async def test_new_work_is_refused_while_a_turn_goes_on(app: App, client: ServerClient, model: ScriptedModel) -> None:
    gate = Gate()
    model.then(half(gate))
    conversation = await client.conversation()
    async with client.sending(conversation, "Write!") as events:
        async for event in events:
            if event.type == "text.delta":
                break
        app.chat.drain()
        for path, expected in DOORS:
            answer = await client.http.post(path, json={})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), path
            assert answer.headers["connection"] == "close"
            error = answer.json()["error"]
            assert expected["error"].items() <= error.items()  # type: ignore[attr-defined]
        assert (await client.http.get("/readyz")).json()["status"] == "draining"
        assert (await client.get(f"/conversations/{conversation}/turns"))["data"][0]["status"] == "running"
        gate.opened.set()
        rest = [event.packet async for event in events if event.n is not None]
    assert (rest[-1]["type"], rest[-1]["status"]) == ("turn.finished", "finished")
    await app.chat.rest(conversation)
    await asyncio.sleep(0.05)
    assert app.chat.is_idle


async def test_a_running_turn_can_be_stopped_meanwhile(app: App, client: ServerClient, model: ScriptedModel) -> None:
    model.then(half(Gate()))
    async with client.sending(await client.conversation(), "Write!") as events:
        async for event in events:
            if event.type == "text.delta":
                break
        app.chat.drain()
        await client.post(f"/turns/{event.packet['turn_id']}/stop")
        rest = [event.packet async for event in events if event.n is not None]
    assert rest[-1]["status"] == "stopped"


@pytest.mark.parametrize(("seconds", "ended"), [("60", "finished"), ("0.5", "interrupted")])
async def test_a_process_lets_turns_go_on_for_the_time_that_is_set(
    provider: str, tmp_path: Path, seconds: str, ended: str
) -> None:
    command, environment = lamella(tmp_path, provider)
    async with started(*command, **environment, LAMELLA_DRAIN_SECONDS=seconds) as server:
        conversation = await server.client.conversation()
        async with server.client.sending(conversation, "Tell me a story.") as events:
            async for event in events:
                if event.type == "text.delta":
                    break
            os.kill(server.process.pid, signal.SIGTERM)
            rest = [event.packet async for event in events if event.n is not None]
        async with asyncio.timeout(20):
            assert await server.process.wait() == 0
    assert (rest[-1]["type"], rest[-1]["status"]) == ("turn.finished", ended)


async def test_a_second_signal_does_not_wait(provider: str, tmp_path: Path) -> None:
    command, environment = lamella(tmp_path, provider)
    async with started(*command, **environment, LAMELLA_DRAIN_SECONDS="600") as server:
        async with server.client.sending(await server.client.conversation(), "Tell me a story.") as events:
            async for event in events:
                if event.type == "text.delta":
                    break
            server.process.send_signal(signal.SIGTERM)
            while (await server.client.http.get("/readyz")).json()["status"] != "draining":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            server.process.send_signal(signal.SIGTERM)
            rest = [event.packet async for event in events if event.n is not None]
        async with asyncio.timeout(20):
            assert await server.process.wait() == 0
    assert rest[-1]["status"] == "interrupted"


@pytest.mark.long
@pytest.mark.parametrize("moment", ["between", "at a commit"])
async def test_a_process_ends_in_time_while_its_database_is_away(
    provider: str, postgres: PostgresServer, tmp_path: Path, moment: str
) -> None:
    """What it could not store is lost, or recovered by the next start; its log says so in plain words."""
    command, environment = lamella(tmp_path, provider)
    log = tmp_path / "log.jsonl"
    with proxied(postgres.socket) as proxy:
        environment["LAMELLA_DATABASE_URL"] = postgres.behind(proxy.port, postgres.copied())
        environment |= {"LAMELLA_DRAIN_SECONDS": "1", "LAMELLA_LOG_FILE": str(log)}
        async with started(*command, **environment) as server:
            conversation = await server.client.conversation()
            async with server.client.sending(conversation, "Tell me a story.") as events:
                async for event in events:
                    if event.type == "text.delta":
                        break
                if moment == "between":
                    proxy.refuse()
                else:
                    proxy.cut_at(b"COMMIT", forward=True, then_refuse=True)
                    async with asyncio.timeout(10):
                        while not proxy.cuts:  # noqa: ASYNC110
                            await asyncio.sleep(0.01)
                asked = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(60):
                    assert await server.process.wait() == 0
                assert time.monotonic() - asked < 12, "a second to drain, two for turns, and some on a busy machine"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    said = [line for line in lines if line["event"] == AWAY_AT_THE_END]
    assert len(said) == 1
    assert not [line for line in lines if "exception" in line]


@pytest.fixture
async def behind(tmp_path: Path, anyio_backend: str) -> AsyncIterator[ServerClient]:
    """A server with accounts that trusts this machine as a proxy; the client is an admin."""
    settings = read_settings(data=tmp_path, trusted_proxies="127.0.0.0/8")
    async with served(settings, models=ScriptedModels(ScriptedModel())) as (app, first):
        key = await first.set_up()
        async with (
            serving(create_web(app, authentication_of(app))) as address,
            client(address, True, authorization=f"Bearer {key}") as speaking,
        ):
            yield speaking


async def login(client: ServerClient, **headers: str) -> int:
    key = client.http.headers["authorization"].removeprefix("Bearer ")
    answer = await client.http.post(
        "/api/v1/login", json={"key": key}, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    return answer.status_code if answer.is_error else 200 + ("Secure" in answer.headers["set-cookie"])


async def test_host_and_protocol_are_those_that_a_trusted_proxy_forwards(behind: ServerClient) -> None:
    page = {"origin": "https://chat.example"}
    assert await login(behind, **page, x_forwarded_host="chat.example", x_forwarded_proto="https") == 201
    assert await login(behind, **page, x_forwarded_host="other.example") == 403
    assert await login(behind, origin="http://127.0.0.1", host="127.0.0.1") == 200


async def test_others_forward_nothing(tmp_path: Path) -> None:
    settings = read_settings(data=tmp_path, trusted_proxies="10.0.0.0/8")
    async with served(settings, models=ScriptedModels(ScriptedModel())) as (_, client):
        client.http.headers["authorization"] = f"Bearer {await client.set_up()}"
        assert await login(client, origin="https://chat.example", x_forwarded_host="chat.example") == 403
        assert await login(client, x_forwarded_proto="https") == 200


async def test_no_limit_of_an_address_holds_for_a_trusted_proxy(tmp_path: Path) -> None:
    settings = read_settings(data=tmp_path)
    async with served(settings, models=ScriptedModels(ScriptedModel())) as (app, _):
        for trusted, open_after in ((read_proxies("127.0.0.1"), 4), (read_proxies("10.0.0.1"), 2)):
            limits = Limits(DEFAULT.in_all, 2, trusted=trusted)
            async with serving(create_web(app, authentication_of(app)), limits) as address:
                host, port = address.removeprefix("http://").split(":")
                made = [await asyncio.open_connection(host, int(port)) for _ in range(4)]
                await asyncio.sleep(0.1)
                assert sum(not reader.at_eof() and reader.exception() is None for reader, _ in made) == open_after
                for _, writer in made:
                    writer.close()


def test_addresses_and_networks_are_read() -> None:
    networks = read_proxies(" 10.0.0.0/8, 192.0.2.7 ,fd00::/8,")
    assert all(is_within(one, networks) for one in ("10.1.2.3", "192.0.2.7", "::ffff:10.0.0.1", "fd12::1"))
    assert not any(is_within(one, networks) for one in ("11.0.0.1", "192.0.2.8", "", "unix", "::1"))
    with pytest.raises(ConfigurationError, match="LAMELLA_TRUSTED_PROXIES"):
        read_proxies("proxy.local")
