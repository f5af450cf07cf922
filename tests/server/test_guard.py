"""Only this machine may ask, and only pages that it served itself; addresses of the page are never paths."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from lamella.server.testing import ServerClient

from .test_bad_input import refused

pytestmark = pytest.mark.anyio

FOREIGN_HOSTS = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil.example:8377",
    "192.168.0.7",
    "0.0.0.0",
    "127.0.0.2",
    "[::2]",
    "[",
    "localhost@evil.example",
    "",
    "2130706433",
    "127.1",
]


async def test_a_foreign_host_is_refused(client: ServerClient) -> None:
    for host in FOREIGN_HOSTS:
        for path in ("/", "/api/v1/conversations", "/healthz", "/openapi.json"):
            refused(await client.http.get(path, headers={"host": host}), 403, "permission_denied")


async def test_this_machine_goes_by_all_its_names(client: ServerClient) -> None:
    for host in ("localhost", "LOCALHOST:99", "127.0.0.1", "[::1]", "[::1]:8377"):
        assert (await client.http.get("/healthz", headers={"host": host})).json() == {"status": "ok"}


FOREIGN_ORIGINS = [
    "https://evil.example",
    "null",
    "http://",
    "http://[",
    "nonsense",
    "",
    "http://127.0.0.1:1",
    "http://localhost",
    "http://127.0.0.1.evil.example",
    "\xff",
]


async def test_a_page_of_another_origin_is_refused(client: ServerClient) -> None:
    for origin in FOREIGN_ORIGINS:
        headers = {"origin": origin.encode("latin-1")}
        refused(await client.call("POST", "/conversations", headers=headers, json={}), 403, "permission_denied")
        refused(await client.call("GET", "/conversations", headers=headers), 403, "permission_denied")
    assert (await client.get("/conversations"))["data"] == []


async def test_the_servers_own_page_is_let_in(client: ServerClient) -> None:
    own = str(client.http.base_url).rstrip("/")
    answer = await client.call("POST", "/conversations", json={}, headers={"origin": own})
    assert answer.status_code == 201


async def test_every_answer_has_the_headers_that_protect_the_page(client: ServerClient) -> None:
    for path, host in (("/", None), ("/api/v1/status", None), ("/nothing", None), ("/", "evil.example")):
        answer = await client.http.get(path, headers={} if host is None else {"host": host})
        assert answer.headers["x-request-id"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in answer.headers["content-security-policy"]


async def raw(client: ServerClient, target: bytes) -> bytes:
    """The whole answer to a request for `target`, sent as it stands: clients tidy addresses up."""
    address = urlsplit(str(client.http.base_url))
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b"GET %b HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n" % target)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


OUTSIDE = [
    b"/../../../../../../etc/passwd",
    b"/..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    b"/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    b"//etc/passwd",
    b"/%2fetc%2fpasswd",
    b"/..\\..\\etc\\passwd",
    b"/web.py",
    b"/../web.py",
    b"/assets/../../web.py",
    b"/assets/%2e%2e/%2e%2e/web.py",
    b"/assets/..%2f..%2fweb.py",
    b"/assets//etc/passwd",
    b"/assets/",
    b"/%00",
    b"/index.html%00.txt",
    b"/" + b"a" * 5_000,
    b"/" + b"a/" * 2_000,
    b"/%ff%fe",
    b"/~root",
    b"/.",
    b"/..",
]


async def test_no_address_leads_out_of_the_pages_folder(client: ServerClient) -> None:
    for target in OUTSIDE:
        answer = await raw(client, target)
        assert answer.split()[1] in (b"200", b"404"), answer[:300]
        assert b"root:" not in answer, target
        assert b"create_web" not in answer, target


async def test_an_address_of_the_page_gives_the_page(client: ServerClient) -> None:
    answer = await client.http.get("/c/conv_1")
    assert answer.status_code == 200
    assert "html" in answer.headers["content-type"] or "page" in answer.json()
    assert (await client.http.head("/")).status_code == 200
