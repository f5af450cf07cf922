"""The native API as the terminal uses it: of the server that holds a data folder, else of the app in this process.

Every command of the terminal speaks HTTP. If no server runs over the folder, the requests go to the same routes without
a socket (`own_server.py`), so a message is the same by either way:

    async with open_api(read_settings()) as api:
        conversation = await api.conversation(None, None)
        async for packet in api.send(conversation, Sending("What is a tide?", zone="Europe/Berlin")):
            ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import httpx2

from lamella.core.errors import CallerError, ConfigurationError, InvalidRequest, LamellaError
from lamella.core.packets import AnyPacket, decode_packet
from lamella.settings import Settings

ADDRESS_FILE = "server.url"
"""In the data folder: where the server is that holds it."""

TOKEN_FILE = "first-run.token"
"""Beside it, for nobody else to read, until accounts are set up: whoever can open the folder has all that is in it."""

NOTICES = 100
"""How many notices are asked for at once."""

LONGEST_REASON = 2_000
"""Characters of why a call was refused."""

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sending:
    """A message as it is typed; `at_once` waits for no more of them.

    `effort` is the thinking effort of this turn, in its one spelling; None leaves it to the conversation.
    """

    text: str
    file_ids: tuple[str, ...] = ()
    zone: str = "UTC"
    at_once: bool = False
    effort: str | None = None
    models: tuple[str, ...] = ()

    @property
    def body(self) -> Object:
        """The body of its request."""
        body: Object = {"text": self.text, "file_ids": list(self.file_ids), "timezone": self.zone}
        body |= {"debounce_ms": 0} if self.at_once else {}
        body |= {"thinking_effort": self.effort} if self.effort is not None else {}
        return body | ({"models": list(self.models)} if self.models else {})


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A file as the terminal needs it; `problem` says why it can't be sent or is only listed."""

    id: str
    name: str
    ready: bool
    problem: str | None


async def _nothing_runs(conversation_id: str) -> None:
    """A server goes on without this process."""


class Api:
    """`/api/v1` over a client.

    `settled` waits until no compaction of a conversation runs in this process: it would end with the process.
    """

    def __init__(self, client: httpx2.AsyncClient, settled: Callable[[str], Awaitable[None]] = _nothing_runs) -> None:
        self.client = client
        self.settled = settled

    async def get(self, path: str, **query: Any) -> Object:
        """The JSON of a GET; raises what the server answered."""
        return await self.ask("GET", path, params=query)

    async def post(self, path: str, body: Object) -> Object:
        """The JSON of a POST."""
        return await self.ask("POST", path, json=body)

    async def ask(self, method: str, path: str, **options: Any) -> Object:
        """The JSON of any request under `/api/v1`."""
        answer = await self.client.request(method, f"/api/v1{path}", **options)
        body: Object = answer.json() if answer.content else {}
        if answer.is_error:
            raise refusal(body["error"])
        return body

    async def conversation(self, id: str | None, model: str | None) -> str:
        """The id of a known conversation, or of a new one."""
        if id is not None:
            found = await self.get(f"/conversations/{id}")
        else:
            found = await self.post("/conversations", {"model": model})
        return str(found["id"])

    async def forget(self, conversation_id: str) -> None:
        """Remove a conversation."""
        await self.ask("DELETE", f"/conversations/{conversation_id}")

    async def upload(self, path: Path) -> Uploaded:
        """Take a file in."""
        with opened(path) as file:
            found = await self.ask("POST", "/files", files={"file": (path.name, file)})
        return Uploaded(found["id"], found["name"], found["status"] == "ready", found["reason"])

    async def send(self, conversation_id: str, sending: Sending) -> AsyncIterator[AnyPacket]:
        """Send a message and follow its turn, or a command and hear its answer."""
        path = f"/api/v1/conversations/{conversation_id}/turns"
        async with self.client.stream("POST", path, json=sending.body) as answer:
            if answer.is_error:
                await answer.aread()
                raise refusal(answer.json()["error"])
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield decode_packet(line[6:].encode())

    async def flush(self, conversation_id: str) -> None:
        """Wait no longer for more messages: answer those that wait."""
        await self.post(f"/conversations/{conversation_id}/queue/flush", {})

    async def notifications(self, conversation_id: str, after: str | None) -> tuple[str | None, list[str]]:
        """The texts of the notifications after the notice `after`, and the id of the newest notice."""
        query = {"limit": NOTICES, "order": "asc", "after": after} if after else {"limit": NOTICES, "order": "desc"}
        found = (await self.get(f"/conversations/{conversation_id}/commands", **query))["data"]
        newest = max((str(notice["id"]) for notice in found), default=after)
        return newest, [str(notice["text"]) for notice in found if notice["object"] == "notification"]

    async def usages(self) -> Mapping[str, str]:
        """How each command is typed, by its name."""
        found = (await self.get("/commands"))["data"]
        return {str(command["name"]): str(command["usage"]) for command in found}

    async def abort(self, conversation_id: str) -> None:
        """Stop what is answered, or about to be."""
        await self.post(f"/conversations/{conversation_id}/commands", {"text": "/abort"})

    async def stop(self, turn_id: str) -> None:
        """Ask a turn to stop."""
        await self.post(f"/turns/{turn_id}/stop", {})

    async def approve(self, turn_id: str, call_id: str, *, approved: bool, reason: str) -> None:
        """Let a call that waits run, or not; the reason is told to the model."""
        said = {"approved": approved, "reason": reason[:LONGEST_REASON]}
        await self.post(f"/turns/{turn_id}/calls/{call_id}/approval", said)

    async def passage(self, file_id: str, start: int, end: int) -> str:
        """A piece of a file's text."""
        found = await self.get(f"/files/{file_id}/text")
        return str(found["text"])[start:end]


def opened(path: Path) -> BinaryIO:
    """A file to send; raises `InvalidRequest`."""
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidRequest(f"{path} can't be read: {error.strerror}.", param=str(path)) from None


def _callers(kind: type[CallerError] = CallerError) -> Iterator[type[CallerError]]:
    """Every error that is the caller's."""
    for error in kind.__subclasses__():
        yield error
        yield from _callers(error)


_KINDS: Mapping[str, type[LamellaError]] = {
    ConfigurationError.code: ConfigurationError,
    **{error.code: error for error in _callers()},
}
"""The errors whose kind decides how a command ends, by their codes."""


def refusal(error: Object) -> LamellaError:
    """The error that a server answered with, as the kind that it would be here."""
    kind = _KINDS.get(str(error.get("code")), LamellaError)
    return kind(str(error.get("message")), hint=error.get("hint"), param=error.get("param"))


def _with_key(settings: Settings) -> dict[str, str]:
    """The header of the key that the terminal asks with, if it has one."""
    return {} if settings.key is None else {"authorization": f"Bearer {settings.key.get_secret_value()}"}


async def _running_server(settings: Settings, stack: AsyncExitStack, *, as_nobody: bool) -> Api | None:
    """The server of this data folder, if one runs; raises what it says of a missing or wrong key."""
    address = settings.data / ADDRESS_FILE
    if not address.is_file():
        return None
    client = httpx2.AsyncClient(
        base_url=address.read_text().strip(),
        headers=_with_key(settings),
        timeout=httpx2.Timeout(120, connect=2),
        trust_env=False,
    )
    await stack.enter_async_context(client)
    try:
        answer = await client.get("/api/v1/status")
        status = answer.json()
    except (httpx2.HTTPError, ValueError):
        return None
    if answer.status_code in (401, 403) and "error" in status:
        if as_nobody:
            return Api(client)
        raise refusal(status["error"])
    return Api(client) if status.get("data_dir") == str(settings.data) else None


@asynccontextmanager
async def open_api(settings: Settings, *, as_nobody: bool = False) -> AsyncIterator[Api]:
    """The API of the server that runs over this data folder, else of the app, opened here without a socket.

    `as_nobody` is for what may be asked without a key: a server that wants one is taken as it is.
    """
    async with AsyncExitStack() as stack:
        found = await _running_server(settings, stack, as_nobody=as_nobody)
        if found is not None:
            yield found
            return
        # Loaded here: who asks a server does not wait for the whole engine to be loaded beside it.
        from lamella.cli.own_server import own_client  # noqa: PLC0415

        yield Api(*await stack.enter_async_context(own_client(settings, _with_key(settings))))


@asynccontextmanager
async def announced(data: Path, url: str, token: str | None = None) -> AsyncIterator[None]:
    """Leave the server's address, and its first-run token, in the data folder while it runs."""
    address, secret = data / ADDRESS_FILE, data / TOKEN_FILE
    try:
        secret.unlink(missing_ok=True)
        if token is not None:
            secret.touch(mode=0o600)
            secret.write_text(token)
        address.write_text(url)
    except OSError as error:
        raise ConfigurationError(f"{error.filename} can't be written: {error.strerror}.") from error
    try:
        yield
    finally:
        address.unlink(missing_ok=True)
        secret.unlink(missing_ok=True)


def first_run_token(data: Path) -> str | None:
    """The token that the server of this data folder left there, if it did."""
    try:
        return (data / TOKEN_FILE).read_text()
    except OSError:
        return None
