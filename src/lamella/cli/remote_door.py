"""The terminal's way to a server: its native API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from lamella.cli.api import Api, Object, refusal
from lamella.cli.door import NOTICES, Sending, Uploaded, opened
from lamella.core.packets import AnyPacket, decode_packet

LONGEST_REASON = 2_000


class RemoteDoor:
    """A server's native API."""

    def __init__(self, api: Api, status: Object) -> None:
        self._api = api
        self.notice: str | None = status["notice"]
        self.model: str = status["model"]

    async def conversation(self, id: str | None, model: str | None) -> str:
        """See `Door`."""
        if id is not None:
            found = await self._api.get(f"/conversations/{id}")
        else:
            found = await self._api.post("/conversations", {"model": model})
        return str(found["id"])

    async def forget(self, conversation_id: str) -> None:
        """See `Door`."""
        await self._api.ask("DELETE", f"/conversations/{conversation_id}")

    async def upload(self, path: Path) -> Uploaded:
        """See `Door`."""
        with opened(path) as file:
            found = await self._api.ask("POST", "/files", files={"file": (path.name, file)})
        return Uploaded(found["id"], found["name"], found["status"] == "ready", found["reason"])

    async def send(self, conversation_id: str, sending: Sending) -> AsyncIterator[AnyPacket]:
        """See `Door`."""
        body: Object = {"text": sending.text, "file_ids": list(sending.file_ids), "timezone": sending.zone}
        body |= {"debounce_ms": 0} if sending.at_once else {}
        body |= {"thinking_effort": sending.effort} if sending.effort is not None else {}
        body |= {"models": list(sending.models)} if sending.models else {}
        path = f"/api/v1/conversations/{conversation_id}/turns"
        async with self._api.client.stream("POST", path, json=body) as answer:
            if answer.is_error:
                await answer.aread()
                raise refusal(answer.json()["error"])
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield decode_packet(line[6:].encode())

    async def flush(self, conversation_id: str) -> None:
        """See `Door`."""
        await self._api.post(f"/conversations/{conversation_id}/queue/flush", {})

    async def settle(self, conversation_id: str) -> None:
        """See `Door`: the server goes on without this process."""

    async def notifications(self, conversation_id: str, after: str | None) -> tuple[str | None, list[str]]:
        """See `Door`."""
        query = {"limit": NOTICES, "order": "asc", "after": after} if after else {"limit": NOTICES, "order": "desc"}
        found = (await self._api.get(f"/conversations/{conversation_id}/commands", **query))["data"]
        newest = max((str(notice["id"]) for notice in found), default=after)
        return newest, [str(notice["text"]) for notice in found if notice["object"] == "notification"]

    async def usages(self) -> Mapping[str, str]:
        """See `Door`."""
        found = (await self._api.get("/commands"))["data"]
        return {str(command["name"]): str(command["usage"]) for command in found}

    async def abort(self, conversation_id: str) -> None:
        """See `Door`."""
        await self._api.post(f"/conversations/{conversation_id}/commands", {"text": "/abort"})

    async def stop(self, turn_id: str) -> None:
        """See `Door`."""
        await self._api.post(f"/turns/{turn_id}/stop", {})

    async def approve(self, turn_id: str, call_id: str, *, approved: bool, reason: str) -> None:
        """See `Door`."""
        said = {"approved": approved, "reason": reason[:LONGEST_REASON]}
        await self._api.post(f"/turns/{turn_id}/calls/{call_id}/approval", said)

    async def passage(self, file_id: str, start: int, end: int) -> str:
        """See `Door`."""
        found = await self._api.get(f"/files/{file_id}/text")
        return str(found["text"])[start:end]
