"""The web application: routes, request ids, security headers, the limit of bodies, the reference, and the page."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from functools import cache, partial
from importlib import resources
from mimetypes import guess_type
from os import PathLike, stat_result
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lamella import __version__
from lamella.app.app import App
from lamella.core.errors import InvalidRequest, PayloadTooLarge
from lamella.gateway.relay import SEND_BODY
from lamella.gateway.wrap import RECORDS
from lamella.server.authentication import Authentication, AuthenticationMiddleware, Identify, OriginGuard
from lamella.server.balancing import AnswerLimit, Drain, ServerReadiness, TrustedProxies, read_proxies
from lamella.server.doors import PATHS, add_doors
from lamella.server.failures import EVERYTHING, check_text, error_answer, install, methods_of
from lamella.server.frontends import Frontends
from lamella.server.openapi import described
from lamella.server.reference import POLICY as REFERENCE_POLICY
from lamella.server.reference import reference_page
from lamella.server.routes import (
    accounts,
    agui,
    bases,
    conversations,
    documents,
    files,
    library,
    lines,
    openai_conversations,
    requests,
    responses,
    restricted,
    sending,
    sessions,
    stored_responses,
    tools,
    turns,
    ui_chat,
    vendor_files,
)
from lamella.server.routes.agui import AGUI_PATH
from lamella.server.routes.documents import DOCUMENT_PATHS
from lamella.server.routes.files import UPLOAD_PATH
from lamella.server.routes.sending import Arrivals
from lamella.server.routes.ui_chat import CHAT_PATH
from lamella.server.routes.vendor_files import VENDOR_UPLOAD_PATH
from lamella.server.sse import SILENCE_SECONDS

INDEX = "index.html"

ROUTERS = (
    accounts.router,
    bases.router,
    restricted.router,
    conversations.router,
    sending.router,
    turns.router,
    requests.router,
    lines.router,
    sessions.router,
    library.router,
    files.router,
    documents.router,
    tools.router,
    agui.router,
    ui_chat.router,
)
"""The native API."""

FACADES = (responses.router, stored_responses.router, openai_conversations.router, vendor_files.router)
"""Doors for clients of other vendors' APIs."""

POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class SecurityHeaders:
    """A request id and the security headers on every answer; one may bring a stricter policy of its own.

    The server's own `send` is put into the request's state: what relays a stream gives each piece to it, since all
    that stands between only looks at the head of an answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("x-request-id", f"http_{secrets.token_hex(8)}")
                headers["x-content-type-options"] = "nosniff"
                headers["referrer-policy"] = "no-referrer"
                headers.setdefault("content-security-policy", POLICY)
            await send(message)

        if scope["type"] == "http":
            scope.setdefault("state", {})[SEND_BODY] = send
        await self._app(scope, receive, sending if scope["type"] == "http" else send)


MAX_BODY_BYTES = 4_000_000
"""A message of a million tokens is about this long; what is larger is sent as a file."""

MAX_THREAD_BYTES = 64_000_000
"""Frontends send all messages of a thread each time, with the files in them."""


class BodyLimit:
    """Refuses long bodies, and texts that can't be stored. Routes whose whole path one of `streamed` matches read them
    themselves, piece by piece; those at `longer` take `longer_limit` bytes. What is recorded of others' requests is
    stored as it was sent.
    """

    def __init__(
        self,
        app: ASGIApp,
        streamed: Collection[str],
        longer: Collection[str] = (),
        limit: int = MAX_BODY_BYTES,
        longer_limit: int = MAX_THREAD_BYTES,
    ) -> None:
        self._app = app
        self._streamed = re.compile("|".join(streamed))
        self._longer = frozenset(longer)
        self._limits = limit, longer_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._streamed.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        limit = self._limits[scope["path"] in self._longer]
        body = await self._read(receive, limit)
        if body is None:
            message = f"The body is longer than {limit // 1_000_000} MB."
            await error_answer(PayloadTooLarge(message, hint="Upload long texts as files."), scope)(
                scope, receive, send
            )
            return
        try:
            if scope["path"] != RECORDS:
                await check_text(b"".join(message.get("body", b"") for message in body))
        except InvalidRequest as error:
            await error_answer(error, scope)(scope, receive, send)
            return
        await self._app(scope, _from(body, receive), send)

    async def _read(self, receive: Receive, limit: int) -> list[Message] | None:
        """The messages of the body to its end, or to where the client left; None when they are too long."""
        messages: list[Message] = []
        left = limit
        while not messages or messages[-1].get("more_body"):
            messages.append(await receive())
            left -= len(messages[-1].get("body", b""))
            if left < 0:
                return None
        return messages


def _from(messages: list[Message], receive: Receive) -> Receive:
    """Gives `messages` first, then what else comes."""
    waiting = iter(messages)

    async def receiving() -> Message:
        for message in waiting:
            return message
        return await receive()

    return receiving


def page_folder() -> Path:
    """Where the built page lies."""
    return Path(str(resources.files("lamella.server").joinpath("page")))


def create_web(
    app: App,
    authentication: Authentication | Identify | None = None,
    silence: float = SILENCE_SECONDS,
) -> ASGIApp:
    """The ASGI application over a running app.

    `authentication` says who asks: without one it is that of this machine, and a deployment that knows its users by
    other means brings a function. After `silence` seconds without a packet a stream sends a comment.
    """
    authentication = authentication or Authentication(app.accounts)
    by_key, identify = (
        (authentication, authentication.identify)
        if isinstance(authentication, Authentication)
        else (None, authentication)
    )
    parts = {
        "lamella": app,
        "authentication": by_key,
        "identify": identify,
        "silence": silence,
        "gateway": app.gateway,
        "frontends": Frontends(app),
        "readiness": ServerReadiness(app),
    }
    routes = _routes()

    async def with_parts(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {}).update(parts)
        await routes(scope, receive, send)

    async def is_open() -> bool:
        return by_key is not None and by_key.is_local and not await app.accounts.are_set_up()

    # Outside of all that reads something: there requests can overtake each other.
    web = Arrivals(SecurityHeaders(AnswerLimit(Drain(OriginGuard(with_parts, is_open), app), app)), app.chat)
    return _from_root(TrustedProxies(web, read_proxies(app.settings.trusted_proxies)))


def _from_root(app: ASGIApp) -> ASGIApp:
    """The application with its own paths, wherever it is mounted: `/chat/api/v1/status` is its `/api/v1/status`.

    Who may ask is decided by the path, so it has to be the same one for all that read it.
    """

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        root = scope.get("root_path", "")
        if root and scope["path"].startswith(f"{root}/"):
            scope = {**scope, "path": scope["path"][len(root) :], "root_path": ""}
        await app(scope, receive, send)

    return called


@cache
def _routes() -> FastAPI:
    """Every route, made once in a process: what belongs to one server stands in the state of its requests."""
    api = FastAPI(title="Lamella", version=__version__, docs_url=None, redoc_url=None)
    api.openapi = cache(partial(described, api, (*ROUTERS, *FACADES)))  # type: ignore[method-assign]
    install(api)
    for router in (*ROUTERS, *FACADES):
        api.include_router(router)
    add_doors(api)
    _outside(api)
    _reference(api)
    _page(api, page_folder())
    streamed = {UPLOAD_PATH, VENDOR_UPLOAD_PATH, DOCUMENT_PATHS, PATHS}
    api.add_middleware(BodyLimit, streamed=streamed, longer={AGUI_PATH, CHAT_PATH, RECORDS})
    # Inside the application, so that a failure to find out who asks is answered as every other one.
    api.add_middleware(AuthenticationMiddleware)
    return api


def described_api() -> dict[str, Any]:
    """The description of the API, as `/openapi.json` gives it."""
    return _routes().openapi()


def _outside(api: FastAPI) -> None:
    @api.get("/healthz")
    async def healthz() -> dict[str, str]:
        """The process is up."""
        return {"status": "ok"}

    @api.get("/readyz")
    async def readyz(request: Request) -> Response:
        """Whether the server takes new work, and the state of each part that it needs."""
        readiness: ServerReadiness = request.state.readiness
        return await readiness.answer()

    @api.get("/version")
    async def version() -> dict[str, str]:
        """The version."""
        return {"version": __version__}


def _reference(api: FastAPI) -> None:
    written = cache(lambda: reference_page(api.openapi()))

    @api.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        """The description of the API, for people."""
        return HTMLResponse(written(), headers={"content-security-policy": REFERENCE_POLICY})


class Assets(StaticFiles):
    """The page's scripts, styles and fonts. Their names change with their content, so a browser keeps them for good.
    Browsers that take gzip get the copies that the build compressed.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder)
        self._packed = frozenset(map(str, folder.glob("*.gz")))

    def file_response(
        self, full_path: str | PathLike[str], stat_result: stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        headers = {"cache-control": "public, max-age=31536000, immutable", "vary": "accept-encoding"}
        packed = f"{full_path}.gz"
        if packed in self._packed and "gzip" in Headers(scope=scope).get("accept-encoding", ""):
            kind, _ = guess_type(full_path)
            return FileResponse(packed, status_code, headers | {"content-encoding": "gzip"}, kind)
        return FileResponse(full_path, status_code, headers, stat_result=stat_result)


def _page(api: FastAPI, folder: Path) -> None:
    if (folder / "assets").is_dir():
        api.mount("/assets", Assets(folder / "assets"))

    @api.api_route(EVERYTHING, methods=["GET", "HEAD"], include_in_schema=False)
    def page(path: str, request: Request) -> Response:
        """The page for every address that is not the API's: the page reads the conversation from it.

        The files next to it are looked up by name in the folder: an address is never a path.
        """
        if path.startswith(("api/", "v1/")) or path == "metrics":
            raise HTTPException(405 if methods_of(request) else 404, "Method Not Allowed")
        there = {file.name: file for file in folder.iterdir() if file.is_file()} if folder.is_dir() else {}
        if path in there and path != INDEX:
            return FileResponse(there[path])
        if INDEX not in there:
            return JSONResponse({"lamella": __version__, "page": "not built; ./run builds it", "api": "/api/v1/status"})
        return FileResponse(there[INDEX], headers={"cache-control": "no-cache"})
