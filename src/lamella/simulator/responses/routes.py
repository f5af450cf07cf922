"""The HTTP routes of the Responses wire."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lamella.simulator.access import Call, error_headers, open_call, openai_headers, start_call
from lamella.simulator.connection import DroppedResponse, EventStream
from lamella.simulator.errors import ProviderError
from lamella.simulator.openai.encoder import error_body
from lamella.simulator.openai.validation import known_model
from lamella.simulator.responses.exchange import Answer, accept, answer
from lamella.simulator.responses.request import parse
from lamella.simulator.state import Simulator
from lamella.simulator.stream import play


class ResponsesRoutes:
    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    async def responses(self, http: Request) -> Response:
        """POST /v1/responses"""
        call = await open_call(http, self._simulator, "openai")
        try:
            start_call(call, http, self._simulator)
            self._simulator.admit(call.account, call.now)
            request = parse(call.body)
            model = known_model(request.model)
            prefix = accept(request, model, call, self._simulator)
            decided = answer(request, model, prefix, call, self._simulator)
        except ProviderError as error:
            return self._refuse(error, call)
        if decided.fault is not None and decided.fault.name == "drop_before":
            return DroppedResponse()
        return self._stream(decided, call) if request.stream else await self._whole(decided, call)

    async def input_tokens(self, http: Request) -> Response:
        """POST /v1/responses/input_tokens"""
        call = await open_call(http, self._simulator, "openai")
        try:
            start_call(call, http, self._simulator)
            request = parse(call.body)
            prefix = accept(request, known_model(request.model), call, self._simulator)
        except ProviderError as error:
            return self._refuse(error, call)
        counted = {"object": "response.input_tokens", "input_tokens": prefix.total}
        return JSONResponse(counted, headers=openai_headers(call, self._simulator))

    def _stream(self, decided: Answer, call: Call) -> Response:
        clock = self._simulator.clock
        events = play(decided.draft, decided.encoder, decided.pace, decided.chunk, decided.cut, clock, call.record)
        return EventStream(events, openai_headers(call, self._simulator))

    async def _whole(self, decided: Answer, call: Call) -> Response:
        length = sum(len(part.text) for part in decided.draft.parts)
        await self._simulator.clock.sleep(decided.pace.first + decided.pace.seconds(length, length))
        if decided.cut is not None:
            return self._refuse(decided.cut.error, call) if decided.cut.error else DroppedResponse()
        call.record.streamed, call.record.finished = length, True
        return JSONResponse(decided.encoder.response(), headers=openai_headers(call, self._simulator))

    def _refuse(self, error: ProviderError, call: Call) -> Response:
        call.record.status, call.record.error = error.status, error.message
        headers = openai_headers(call, self._simulator) | error_headers(error)
        return JSONResponse(error_body(error), status_code=error.status, headers=headers)
