"""The ASGI application: the endpoints of all wires, and the admin calls, over one simulator.

A call to a wire is opened, then refused in the vendor's words, or answered: whole, or as a stream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lamella_simulator.access import Call, anthropic_headers, error_headers, open_call, openai_headers, start_call
from lamella_simulator.admin import AdminRoutes, Unfit, unfit
from lamella_simulator.anthropic import encoder as anthropic_encoder
from lamella_simulator.anthropic import exchange as messages
from lamella_simulator.embeddings import EmbeddingsExchange
from lamella_simulator.errors import ProviderError
from lamella_simulator.exchange import Exchange
from lamella_simulator.models import Wire
from lamella_simulator.openai import encoder as openai_encoder
from lamella_simulator.openai import exchange as chat
from lamella_simulator.responses import exchange as responses
from lamella_simulator.server import DroppedResponse, EventStream
from lamella_simulator.settings import Settings
from lamella_simulator.state import Simulator
from lamella_simulator.stream import Answer, play

Endpoint = Callable[[Request], Awaitable[Response]]
Tell = Callable[[Call, Simulator], dict[str, Any]]


class Door:
    """The endpoints of a wire. `headers` and `error_body` are the wire's own."""

    def __init__(
        self,
        simulator: Simulator,
        wire: Wire,
        headers: Callable[[Call, Simulator], dict[str, str]],
        error_body: Callable[[ProviderError, str], dict[str, Any]],
    ) -> None:
        self._simulator = simulator
        self._wire = wire
        self._headers = headers
        self._error_body = error_body

    def answers(self, exchange: type[Exchange[Any]]) -> Endpoint:
        """An endpoint whose requests are answered and billed."""
        return partial(self._answer, exchange)

    def tells(self, tell: Tell) -> Endpoint:
        """An endpoint that costs nothing: counts and lists."""
        return partial(self._tell, tell)

    async def _answer(self, exchange: type[Exchange[Any]], http: Request) -> Response:
        call = await open_call(http, self._simulator, self._wire)
        try:
            start_call(call, http, self._simulator)
            self._simulator.admit(call.account, call.now)
            decided = exchange(call, self._simulator).answer()
        except ProviderError as error:
            return self._refuse(error, call)
        if decided.fault is not None and decided.fault.name == "drop_before":
            return DroppedResponse()
        return self._stream(decided, call) if decided.streams else await self._whole(decided, call)

    async def _tell(self, tell: Tell, http: Request) -> Response:
        call = await open_call(http, self._simulator, self._wire)
        try:
            start_call(call, http, self._simulator)
            told = tell(call, self._simulator)
            call.record.finished = True
        except ProviderError as error:
            return self._refuse(error, call)
        return JSONResponse(told, headers=self._headers(call, self._simulator))

    def _stream(self, decided: Answer, call: Call) -> Response:
        clock = self._simulator.clock
        events = play(decided, clock, call.record)
        return EventStream(events, self._headers(call, self._simulator))

    async def _whole(self, decided: Answer, call: Call) -> Response:
        length = sum(len(part.text) for part in decided.draft.parts)
        await self._simulator.clock.sleep(decided.pace.first + decided.pace.seconds(length, length))
        if decided.cut is not None:
            return self._refuse(decided.cut.error, call) if decided.cut.error else DroppedResponse()
        call.record.streamed, call.record.finished = length, True
        return JSONResponse(decided.encoder.whole(), headers=self._headers(call, self._simulator))

    def _refuse(self, error: ProviderError, call: Call) -> Response:
        call.record.status, call.record.error = error.status, error.message
        headers = self._headers(call, self._simulator) | error_headers(error)
        return JSONResponse(self._error_body(error, call.request_id), status_code=error.status, headers=headers)


def create_app(settings: Settings | None = None) -> Starlette:
    """A fresh simulator with its own cache, clock and scripts."""
    return app_of(Simulator(settings or Settings()))


def app_of(simulator: Simulator) -> Starlette:
    """The application over a simulator that is there already."""
    admin = AdminRoutes(simulator)
    anthropic = Door(simulator, "anthropic", anthropic_headers, anthropic_encoder.error_body)
    openai = Door(simulator, "openai", openai_headers, openai_encoder.error_body)
    embeddings = Door(simulator, "embeddings", openai_headers, openai_encoder.error_body)
    of_anthropic, of_openai = anthropic.tells(messages.list_models), openai.tells(chat.list_models)

    async def models(http: Request) -> Response:
        return await (of_anthropic if "anthropic-version" in http.headers else of_openai)(http)

    return Starlette(
        routes=[
            Route("/v1/messages", anthropic.answers(messages.MessagesExchange), methods=["POST"]),
            Route("/v1/messages/count_tokens", anthropic.tells(messages.count_tokens), methods=["POST"]),
            Route("/v1/chat/completions", openai.answers(chat.ChatExchange), methods=["POST"]),
            Route("/v1/responses", openai.answers(responses.ResponsesExchange), methods=["POST"]),
            Route("/v1/responses/compact", openai.answers(responses.CompactExchange), methods=["POST"]),
            Route("/v1/responses/input_tokens", openai.tells(responses.count_input_tokens), methods=["POST"]),
            Route("/v1/embeddings", embeddings.answers(EmbeddingsExchange), methods=["POST"]),
            Route("/v1/models", models),
            Route("/_sim/replies", admin.replies, methods=["POST"]),
            Route("/_sim/faults", admin.faults, methods=["GET", "POST"]),
            Route("/_sim/prices", admin.prices, methods=["GET", "POST"]),
            Route("/_sim/clock", admin.clock, methods=["GET", "POST"]),
            Route("/_sim/ledger", admin.ledger),
            Route("/_sim/requests", admin.requests),
            Route("/_sim/settings", admin.settings, methods=["GET", "POST"]),
            Route("/_sim/reset", admin.reset, methods=["POST"]),
        ],
        exception_handlers={Unfit: unfit, HTTPException: absent},
    )


async def absent(http: Request, error: Exception) -> Response:
    """A path or a method that there is not, in the shape that the SDKs of the asker show."""
    if not isinstance(error, HTTPException):
        raise error
    paths = [str(getattr(route, "path", "")) for route in http.app.routes]
    admin = http.url.path.startswith("/_sim/")
    known = ", ".join(path for path in paths if path.startswith("/_sim/") == admin)
    message = f"{http.method} {http.url.path} is not simulated. There are {known}"
    if error.status_code == 405:
        message = f"{http.url.path} takes {(error.headers or {}).get('Allow', '')}, not {http.method}"
    body: dict[str, Any] = {"error": message}
    if not admin:
        body = {"type": "error", "error": {"type": "not_found_error", "message": message, "code": None, "param": None}}
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)
