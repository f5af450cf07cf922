"""The HTTP routes of the Chat Completions wire."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lamella.simulator.access import Call, error_headers, open_call, openai_headers, start_call
from lamella.simulator.connection import DroppedResponse, EventStream
from lamella.simulator.errors import ProviderError
from lamella.simulator.models import MODELS
from lamella.simulator.openai.encoder import error_body
from lamella.simulator.openai.exchange import Answer, answer
from lamella.simulator.openai.request import parse
from lamella.simulator.openai.validation import known_model, validate
from lamella.simulator.state import Simulator
from lamella.simulator.stream import play

RELEASED = 1_767_225_600


class OpenAIRoutes:
    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    async def chat(self, http: Request) -> Response:
        """POST /v1/chat/completions"""
        call = await open_call(http, self._simulator, "openai")
        try:
            start_call(call, http, self._simulator)
            self._simulator.admit(call.account, call.now)
            request = parse(call.body)
            model = known_model(request.model)
            validate(request, model)
            decided = answer(request, model, call, self._simulator)
        except ProviderError as error:
            return self._refuse(error, call)
        if decided.fault is not None and decided.fault.name == "drop_before":
            return DroppedResponse()
        return self._stream(decided, call) if request.stream else await self._whole(decided, call)

    async def models(self, http: Request) -> Response:
        """GET /v1/models"""
        call = await open_call(http, self._simulator, "openai")
        try:
            start_call(call, http, self._simulator)
        except ProviderError as error:
            return self._refuse(error, call)
        rows = [
            {"id": model.id, "object": "model", "created": RELEASED, "owned_by": "lamella-simulator"}
            for model in MODELS
            if "openai" in model.wires
        ]
        return JSONResponse({"object": "list", "data": rows}, headers=openai_headers(call, self._simulator))

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
        return JSONResponse(decided.encoder.completion(), headers=openai_headers(call, self._simulator))

    def _refuse(self, error: ProviderError, call: Call) -> Response:
        call.record.status, call.record.error = error.status, error.message
        headers = openai_headers(call, self._simulator) | error_headers(error)
        return JSONResponse(error_body(error), status_code=error.status, headers=headers)
