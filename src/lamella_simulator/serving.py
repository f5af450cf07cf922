"""What the routes of every wire do alike: open a call, refuse it in the wire's words, or answer it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lamella_simulator.access import Call, error_headers, open_call, start_call
from lamella_simulator.errors import ProviderError
from lamella_simulator.models import Wire
from lamella_simulator.server import DroppedResponse, EventStream
from lamella_simulator.state import Simulator
from lamella_simulator.stream import Answer, Encoder, play


class WireRoutes:
    """The base of a wire's routes. `headers` and `error_body` are the wire's own."""

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

    async def _answer(self, http: Request, decide: Callable[[Call], Answer[Encoder]]) -> Response:
        """Admit a call and answer it; `decide` raises `ProviderError` for what the API refuses."""
        call = await open_call(http, self._simulator, self._wire)
        try:
            start_call(call, http, self._simulator)
            self._simulator.admit(call.account, call.now)
            decided = decide(call)
        except ProviderError as error:
            return self._refuse(error, call)
        if decided.fault is not None and decided.fault.name == "drop_before":
            return DroppedResponse()
        return self._stream(decided, call) if decided.streams else await self._whole(decided, call)

    async def _tell(self, http: Request, tell: Callable[[Call], dict[str, Any]]) -> Response:
        """Answer what costs nothing: counts and lists."""
        call = await open_call(http, self._simulator, self._wire)
        try:
            start_call(call, http, self._simulator)
            told = tell(call)
            call.record.finished = True
        except ProviderError as error:
            return self._refuse(error, call)
        return JSONResponse(told, headers=self._headers(call, self._simulator))

    def _stream(self, decided: Answer[Encoder], call: Call) -> Response:
        clock = self._simulator.clock
        events = play(decided, clock, call.record)
        return EventStream(events, self._headers(call, self._simulator))

    async def _whole(self, decided: Answer[Encoder], call: Call) -> Response:
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
