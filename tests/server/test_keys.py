"""Keys and logins: what opens the server, for how long, and that a key is nowhere but with its user."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from lamella.app.app import App, open_app
from lamella.core.access import LineStorage
from lamella.core.clock import VirtualClock
from lamella.llm.scripted import ScriptedModel, ScriptedModels
from lamella.server.authentication import COOKIE, Authentication
from lamella.server.testing import FIRST_RUN_TOKEN, ServerClient, serving
from lamella.server.testing import client as connected
from lamella.server.web import create_web
from lamella.settings import read_settings

from .test_bad_input import refused

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class House:
    """A server, its clock, and the keys of its admin and of one member."""

    app: App
    clock: VirtualClock
    address: str
    admin: str
    member: str

    @asynccontextmanager
    async def by(self, key: str | None, **headers: str) -> AsyncIterator[ServerClient]:
        """A client with a key."""
        given = {} if key is None else {"authorization": f"Bearer {key}"}
        async with connected(self.address, **given, **headers) as speaking:
            yield speaking


@asynccontextmanager
async def empty(folder: Path, **authentication: Any) -> AsyncIterator[tuple[App, VirtualClock, str]]:
    """A server without accounts."""
    clock = VirtualClock(datetime(2026, 3, 1, 12, tzinfo=UTC))
    settings = read_settings(data=folder)
    async with open_app(settings, models=ScriptedModels(ScriptedModel()), clock=clock) as app:
        web = create_web(app, Authentication(app.accounts, first_run_token=FIRST_RUN_TOKEN, **authentication))
        async with serving(web) as address:
            yield app, clock, address


@pytest.fixture
async def house(tmp_path: Path, anyio_backend: str) -> AsyncIterator[House]:
    async with empty(tmp_path) as (app, clock, address), connected(address) as first:
        admin = await first.set_up()
        async with connected(address, authorization=f"Bearer {admin}") as ann:
            member = (await ann.post("/users", {"name": "Bob"}))["key"]["secret"]
        yield House(app, clock, address, admin, member)


def everything_under(folder: Path) -> list[bytes]:
    """The bytes of every file."""
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


async def test_without_accounts_this_machine_needs_no_key(tmp_path: Path) -> None:
    async with empty(tmp_path) as (_, _, address), connected(address) as somebody:
        assert await somebody.get("/login") == {
            "object": "login",
            "set_up": False,
            "key_needed": False,
            "token_needed": True,
        }
        me = await somebody.get("/me")
        assert (me["id"], me["role"], me["accounts"], me["key_id"]) == ("user_local", "admin", False, None)
        # Other vendors' clients can't leave a key out.
        assert (await somebody.call("GET", "/me", headers={"x-api-key": "sk-ant-whatever"})).status_code == 200
        refused(await somebody.call("GET", "/me", headers={"x-api-key": "lam_wrong"}), 401, "authentication_error")
        refused(await somebody.call("POST", "/users", json={"name": "Bob"}), 403, "permission_denied")


async def test_setting_up_closes_the_server_and_keeps_what_is_there(tmp_path: Path) -> None:
    async with empty(tmp_path) as (_, _, address), connected(address) as somebody:
        conversation = await somebody.conversation()
        for wrong in ({}, {"token": ""}, {"token": "guessed"}):
            body = {"name": "Eve", **wrong}
            refused(await somebody.call("POST", "/setup", json=body), 401, "authentication_error", "token")
        made = await somebody.post("/setup", {"name": " Ann ", "token": FIRST_RUN_TOKEN})
        assert (made["id"], made["name"], made["role"]) == ("user_local", "Ann", "admin")
        error = refused(await somebody.call("GET", "/conversations"), 401, "authentication_error")
        assert "Bearer" in error["hint"]
        refused(
            await somebody.call("POST", "/setup", json={"name": "Eve", "token": FIRST_RUN_TOKEN}),
            403,
            "permission_denied",
        )
        assert (await somebody.get("/login"))["key_needed"] is True
        async with connected(address, authorization=f"Bearer {made['key']['secret']}") as ann:
            assert [one["id"] for one in (await ann.get("/conversations"))["data"]] == [conversation]
            assert (await ann.get("/me"))["accounts"] is True
            # With keys any name of the server will do; before, a rebound one could have read everything.
            answer = await ann.http.get("/api/v1/me", headers={"host": "chat.example"})
            assert answer.status_code == 200


async def test_where_others_reach_it_only_the_first_run_token_opens_it(tmp_path: Path) -> None:
    async with (
        empty(tmp_path, is_local=False) as (_, _, address),
        connected(address, host="chat.example") as somebody,
    ):
        assert (await somebody.get("/login"))["token_needed"] is True
        for path in ("/me", "/conversations", "/keys", "/nothing"):
            error = refused(await somebody.call("GET", path), 401, "authentication_error")
            assert "first-run token" in error["hint"]
        for body in ({"name": "Eve"}, {"name": "Eve", "token": "guessed"}):
            error = refused(await somebody.call("POST", "/setup", json=body), 401, "authentication_error", "token")
            assert FIRST_RUN_TOKEN not in str(error)
        made = await somebody.post("/setup", {"name": "Ann", "token": FIRST_RUN_TOKEN})
        refused(
            await somebody.call("POST", "/setup", json={"name": "Eve", "token": FIRST_RUN_TOKEN}),
            403,
            "permission_denied",
        )
        answer = await somebody.call("GET", "/me", headers={"authorization": f"Bearer {made['key']['secret']}"})
        assert answer.json()["name"] == "Ann"


async def test_a_key_opens_by_every_door_and_two_keys_by_none(house: House) -> None:
    async with house.by(None) as client:
        for headers in ({"authorization": f"bearer {house.member}"}, {"x-api-key": house.member}):
            assert (await client.call("GET", "/me", headers=headers)).json()["name"] == "Bob"
        both = {"authorization": f"Bearer {house.member}", "x-api-key": house.admin}
        refused(await client.call("GET", "/me", headers=both), 401, "authentication_error")
        for wrong in ("", "Bearer", "Basic abc", house.member):
            answer = await client.call("GET", "/me", headers={"authorization": wrong})
            refused(answer, 401, "authentication_error")


@pytest.mark.parametrize("change", ["last letter", "prefix only", "longer", "upper", "empty"])
async def test_a_key_that_is_not_exactly_one_opens_nothing(house: House, change: str) -> None:
    key = house.member
    wrong = {
        "last letter": key[:-1] + ("0" if key[-1] != "0" else "1"),
        "prefix only": key[:13],
        "longer": key + "0",
        "upper": key.upper(),
        "empty": "lam_",
    }[change]
    async with house.by(wrong) as client:
        error = refused(await client.call("GET", "/me"), 401, "authentication_error")
    assert error["message"] == "This key is not known here."


async def test_a_revoked_an_expired_and_a_disabled_users_key_open_nothing(house: House) -> None:
    async with house.by(house.member) as bob, house.by(house.admin) as ann:
        soon = (house.clock.now() + timedelta(hours=1)).isoformat()
        short = await bob.post("/keys", {"name": "short", "expires_at": soon})
        other = await bob.post("/keys", {"name": "other"})
        async with house.by(short["secret"]) as by_short, house.by(other["secret"]) as by_other:
            assert (await by_short.get("/me"))["name"] == "Bob"
            house.clock.advance(3600)
            refused(await by_short.call("GET", "/me"), 401, "authentication_error")
            assert (await by_other.get("/me"))["name"] == "Bob"
            await bob.call("DELETE", f"/keys/{other['id']}")
            refused(await by_other.call("GET", "/me"), 401, "authentication_error")
        await ann.call("PATCH", f"/users/{(await bob.get('/me'))['id']}", json={"disabled": True})
        refused(await bob.call("GET", "/me"), 401, "authentication_error")


async def test_a_key_does_what_its_scopes_say_and_makes_none_that_does_more(house: House) -> None:
    async with house.by(house.member) as bob:
        reader = await bob.post("/keys", {"name": "reader", "scopes": ["read"]})
        manager = await bob.post("/keys", {"name": "manager", "scopes": ["read", "manage"]})
        async with house.by(reader["secret"]) as client:
            assert (await client.get("/me"))["scopes"] == ["read"]
            refused(await client.call("POST", "/conversations", json={}), 403, "permission_denied")
            refused(await client.call("POST", "/keys", json={"name": "more"}), 403, "permission_denied")
        async with house.by(manager["secret"]) as client:
            refused(await client.call("POST", "/conversations", json={}), 403, "permission_denied")
            more = await client.call("POST", "/keys", json={"name": "more", "scopes": ["write"]})
            assert "write" in refused(more, 400, "invalid_request", "scopes")["message"]
            assert (await client.post("/keys", {"name": "same"}))["scopes"] == ["manage", "read"]
            refused(await client.call("POST", "/users", json={"name": "Carl"}), 403, "permission_denied")


async def test_a_page_logs_in_with_a_cookie_that_no_script_reads_and_out_again(house: House) -> None:
    async with house.by(None) as page:
        refused(await page.call("POST", "/login", json={"key": house.member[:-1]}), 401, "authentication_error")
        answer = await page.call("POST", "/login", json={"key": house.member})
        cookie = answer.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age"))
        assert answer.json()["name"] == "Bob"
        assert house.member not in cookie
        assert house.member not in answer.text
        kept = page.http.cookies[COOKIE]
        assert (await page.get("/me"))["name"] == "Bob"
        evil = await page.call("POST", "/conversations", json={}, headers={"origin": "https://evil.example"})
        refused(evil, 403, "permission_denied")
        assert (await page.call("POST", "/logout")).status_code == 204
        refused(await page.call("GET", "/me"), 401, "authentication_error")
    async with house.by(kept) as stolen:
        refused(await stolen.call("GET", "/me"), 401, "authentication_error")
    async with house.by(house.member) as bob:
        assert [key["name"] for key in (await bob.get("/keys"))["data"]] == ["first key"]


async def test_a_login_ends_with_its_key_and_makes_no_other_login(house: House) -> None:
    async with house.by(None) as page, house.by(house.member) as bob:
        made = await bob.post("/keys", {"name": "page"})
        await page.call("POST", "/login", json={"key": made["secret"]})
        again = await page.call("POST", "/login", json={"key": page.http.cookies[COOKIE]})
        refused(again, 401, "authentication_error")
        assert (await page.get("/me"))["name"] == "Bob"
        await bob.call("DELETE", f"/keys/{made['id']}")
        refused(await page.call("GET", "/me"), 401, "authentication_error")


async def test_a_key_is_shown_once_and_kept_nowhere(house: House, tmp_path: Path) -> None:
    async with house.by(house.member) as bob, house.by(house.admin) as ann:
        with capture_logs() as logs:
            made = await bob.post("/keys", {"name": "laptop"})
            answers = [
                (await bob.call("GET", "/keys")).text,
                (await bob.call("GET", f"/keys/{made['id']}")).text,
                (await ann.call("GET", f"/users/{made['user_id']}/keys")).text,
                (await bob.call("POST", "/login", json={"key": made["secret"], "more": 1})).text,
                (await bob.call("POST", "/login", json={"key": [made["secret"]]})).text,
            ]
        assert made["secret"] not in "".join(answers) + str(logs)
        assert made["prefix"] == made["secret"][:12]
        rest = made["secret"][13:].encode()
    files = everything_under(tmp_path)
    assert not any(rest in data for data in files)
    assert any(made["prefix"][4:].encode() in data for data in files)


async def test_the_options_of_a_key_are_set_changed_and_left_to_the_server_again(house: House) -> None:
    async with connected(house.address, authorization=f"Bearer {house.member}") as bob:
        plain = await bob.post("/keys", {"name": "plain"})
        assert plain["storage"] is None
        made = await bob.post("/keys", {"name": "careful", "storage": "hashes"})
        assert made["storage"] == "hashes"
        path = f"/keys/{made['id']}"
        assert (await bob.api.ask("PATCH", path, json={"storage": "off"}))["storage"] == "off"
        assert (await bob.api.ask("PATCH", path, json={}))["storage"] == "off", "what is left out does not change"
        assert (await bob.get(path))["storage"] == "off"
        identity = await house.app.accounts.identify(made["secret"])
        assert identity.options.storage is LineStorage.OFF
        assert (await bob.api.ask("PATCH", path, json={"storage": None}))["storage"] is None
        refused(await bob.call("PATCH", path, json={"storage": "half"}), 400, "invalid_request", "storage")


async def test_when_a_key_was_used_is_noted_to_the_minute(house: House) -> None:
    async with house.by(house.member) as bob:
        await bob.get("/me")
        first = (await bob.get("/keys"))["data"][0]
        assert first["last_used_at"] is not None
        assert first["current"] is True
        house.clock.advance(59)
        assert (await bob.get("/keys"))["data"][0]["last_used_at"] == first["last_used_at"]
        house.clock.advance(2)
        assert (await bob.get("/keys"))["data"][0]["last_used_at"] > first["last_used_at"]


async def test_a_key_issued_by_an_admin_says_so(house: House) -> None:
    async with house.by(house.admin) as ann, house.by(house.member) as bob:
        me = await bob.get("/me")
        issued = await ann.post(f"/users/{me['id']}/keys", {"name": "new laptop"})
        assert (issued["issued_by"], issued["user_id"]) == ("user_local", me["id"])
        async with house.by(issued["secret"]) as again:
            assert (await again.get("/me"))["id"] == me["id"]
        assert "new laptop" in [key["name"] for key in (await bob.get("/keys"))["data"]]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"name": " "}, "name"),
        ({"name": "k", "scopes": []}, "scopes"),
        ({"name": "k", "scopes": ["root"]}, "scopes.0"),
        ({"name": "k", "expires_at": "tomorrow"}, "expires_at"),
        ({"name": "k", "expires_at": "2031-01-01"}, "expires_at"),
        ({"name": "k", "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
    ],
)
async def test_a_key_that_makes_no_sense_is_refused(house: House, body: dict[str, Any], param: str) -> None:
    async with house.by(house.member) as bob:
        refused(await bob.call("POST", "/keys", json=body), 400, "invalid_request", param)


def test_logs_are_structured() -> None:
    """`capture_logs` above sees what the server logs."""
    with capture_logs() as logs:
        structlog.get_logger().info("seen")
    assert logs == [{"event": "seen", "log_level": "info"}]
