"""The native API as the terminal uses it, and the server that holds a data folder, if one runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from lamella.core.errors import (
    AuthenticationFailed,
    CallerError,
    ConfigurationError,
    ContextLengthExceeded,
    InvalidRequest,
    LamellaError,
    NotFound,
    PayloadTooLarge,
    PermissionDenied,
    TurnInProgress,
)
from lamella.settings import Settings

ADDRESS_FILE = "server.url"
"""In the data folder: where the server is that holds it."""

TOKEN_FILE = "first-run.token"
"""Beside it, for nobody else to read, until accounts are set up: whoever can open the folder has all that is in it."""

Object = dict[str, Any]

_KINDS = (
    InvalidRequest,
    NotFound,
    ContextLengthExceeded,
    PayloadTooLarge,
    TurnInProgress,
    AuthenticationFailed,
    PermissionDenied,
)
_CALLERS: dict[str, type[CallerError]] = {error.code: error for error in _KINDS}


class Api:
    """`/api/v1` over a client."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

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


def refusal(error: Object) -> LamellaError:
    """The error that a server answered with, as the kind that it would be here."""
    kind = _CALLERS.get(str(error.get("code")), LamellaError)
    return kind(str(error.get("message")), hint=error.get("hint"), param=error.get("param"))


def _with_key(settings: Settings) -> dict[str, str]:
    """The header of the key that the terminal asks with, if it has one."""
    return {} if settings.key is None else {"authorization": f"Bearer {settings.key.get_secret_value()}"}


async def running_server(
    settings: Settings, stack: AsyncExitStack, *, as_nobody: bool = False
) -> tuple[Api, Object] | None:
    """The server of this data folder and its status, if one runs; raises what it says of a missing or wrong key.

    `as_nobody` is for what may be asked without a key: a server that wants one is taken as it is, without its status.
    """
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
            return Api(client), {}
        raise refusal(status["error"])
    return (Api(client), status) if status.get("data_dir") == str(settings.data) else None


@asynccontextmanager
async def open_api(settings: Settings, *, as_nobody: bool = False) -> AsyncIterator[Api]:
    """The API of the server that runs over this data folder, else of the app, opened here without a socket."""
    async with AsyncExitStack() as stack:
        found = await running_server(settings, stack, as_nobody=as_nobody)
        if found is not None:
            yield found[0]
            return
        # Loaded here: who asks a server does not wait for the whole engine to be loaded beside it.
        from lamella.cli.own_server import own_client  # noqa: PLC0415

        yield Api(await stack.enter_async_context(own_client(settings, _with_key(settings))))


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
