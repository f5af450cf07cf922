"""The application answers by its own route, and Lamella's routes stand under `/chat`."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from chat_app import lifespan, make_app


@pytest.mark.anyio
async def test_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LAMELLA_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LAMELLA_DATA", str(tmp_path))
    app = make_app()
    async with (
        lifespan(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as http,
    ):
        said = (await http.get("/ask", params={"question": "Are you there?"})).json()
        assert said["answer"]
        turn = (await http.get(f"/chat/api/v1/turns/{said['turn_id']}")).json()
        assert turn["status"] == "finished"
        listed = (await http.get("/chat/api/v1/conversations")).json()
        assert [one["id"] for one in listed["data"]] == [turn["conversation_id"]]
        assert (await http.get("/chat/api/v1/nothing")).status_code == 404


@pytest.mark.anyio
async def test_keys_are_asked_for_under_the_mount_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_DATA", str(tmp_path))
    app = make_app()
    async with (
        lifespan(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as http,
    ):
        made = await app.state.lamella.accounts.set_up("Ann")
        assert (await http.get("/chat/api/v1/conversations")).status_code == 401
        headers = {"authorization": f"Bearer {made.issued.secret}"}
        assert (await http.get("/chat/api/v1/conversations", headers=headers)).status_code == 200
        proxied = {"x-forwarded-for": "203.0.113.7"}
        assert (await http.get("/chat/api/v1/conversations", headers=proxied)).status_code == 401


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
