"""The address of Redis, and the checks of its server, on a real one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs

from lamella.core.clock import VirtualClock
from lamella.core.errors import ConfigurationError
from valkey_server import Valkey

redis_server = pytest.importorskip("lamella.turns.redis_server", reason="redis is not installed")

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("redis://h", "redis://h"),
        (" redis://h:6380/3\n", "redis://h:6380/3"),
        ("rediss://ann:s%2Fecret@h/1?ssl_ca_certs=/ca.pem", "rediss://ann:s%2Fecret@h/1?ssl_ca_certs=/ca.pem"),
        ("valkey://:secret@[::1]:7000/", "redis://:secret@[::1]:7000/"),
        ("valkeys://h", "rediss://h"),
    ],
)
def test_an_address_is_read(url: str, read: str) -> None:
    assert redis_server.checked_url(url) == read
    assert redis_server.redis_client(url) is not None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("h:6379", "unknown scheme"),
        ("http://secret@h", "unknown scheme"),
        ("redis://", "names no server"),
        ("redis:///0", "names no server"),
        ("redis://u:secret@h:port", "can't be read"),
        ("redis://secret@h:99999", "can't be read"),
        ("redis://h:0/secret", "names no server"),
        ("redis://[::1/secret", "can't be read"),
        ("redis://h/secret", "no number"),
        ("redis://h/0?password=secret", "unknown option"),
        ("redis://h/0?ssl_ca_certs=/secret", "unknown option"),
        ("rediss://h/0?retry=secret", "unknown option"),
        ("redis://h/0?secret", "can't be read"),
        ("redis://h#secret", "unknown option"),
    ],
)
def test_an_unusable_address_is_refused_and_never_repeated(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        redis_server.checked_url(url)
    assert "secret" not in f"{refused.value.message} {refused.value.hint}"
    assert refused.value.param == "LAMELLA_REDIS_URL"


async def test_a_server_answers_or_is_away(valkey: Valkey) -> None:
    client = redis_server.redis_client(valkey.url)
    assert await redis_server.check_server(client)
    valkey.kill()
    assert not await redis_server.check_server(client)
    valkey.start()
    assert await redis_server.check_server(client)
    await client.aclose()


async def test_a_paused_server_is_away_too(valkey: Valkey) -> None:
    client = redis_server.redis_client(valkey.url, answer_seconds=0.2)
    valkey.pause()
    assert not await redis_server.check_server(client)
    await client.aclose()


async def test_a_wrong_password_is_named(valkey: Valkey) -> None:
    valkey.run("ACL", "SETUSER", "ann", "on", ">right", "~*", "&*", "+@all")
    right, wrong = (valkey.url.replace("//", f"//ann:{password}@") for password in ("right", "wrong"))
    client = redis_server.redis_client(right)
    assert await redis_server.check_server(client)
    await client.aclose()
    client = redis_server.redis_client(wrong)
    with pytest.raises(ConfigurationError, match="Redis refuses the user") as refused:
        await redis_server.check_server(client)
    assert "wrong" not in refused.value.message.lower().replace("wrongpass", "")
    await client.aclose()


async def test_a_user_who_may_not_ask_for_the_version_is_fine(valkey: Valkey) -> None:
    valkey.run("ACL", "SETUSER", "ann", "on", ">right", "~*", "&*", "+@all", "-info")
    client = redis_server.redis_client(valkey.url.replace("//", "//ann:right@"))
    assert await redis_server.check_server(client)
    await client.aclose()


async def test_an_old_server_is_refused() -> None:
    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Redis 6.2, as far as its first answers go."""
        answers = {b"HELLO": b"%1\r\n+version\r\n+6.2.14\r\n", b"INFO": b"$20\r\nredis_version:6.2.14\r\n"}
        while line := await reader.readline():
            words = []
            for _ in range(int(line[1:])):
                await reader.readline()
                words.append((await reader.readline()).strip())
            writer.write(answers.get(words[0], b"+OK\r\n"))
        writer.close()

    async with await asyncio.start_server(old, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        client = redis_server.redis_client(f"redis://{host}:{port}", answer_seconds=5)
        with pytest.raises(ConfigurationError, match=r"Redis 6\.2\.14 is too old") as refused:
            await redis_server.check_server(client)
        assert "Redis 7 or newer" in str(refused.value.hint)
        await client.aclose()


def test_the_log_has_one_line_when_redis_goes_and_one_when_it_is_back() -> None:
    clock = VirtualClock(datetime(2026, 3, 1, tzinfo=UTC))
    outage = redis_server.Outage(clock)
    with capture_logs() as lines:
        for _ in range(100):
            outage.failed("reading", ConnectionError("refused"))
            outage.failed("writing", TimeoutError("slow"))
            clock.advance(1)
        assert outage.problem == "ConnectionError: refused"
        outage.works("reading")
        assert outage.problem == "TimeoutError: slow"
        outage.works("writing")
        outage.works("writing")
    assert outage.problem is None
    assert [(line["log_level"], line.get("away_seconds")) for line in lines] == [("error", None), ("warning", 100.0)]
