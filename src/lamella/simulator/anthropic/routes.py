"""The HTTP routes of the Messages wire."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from lamella.simulator.access import Call, anthropic_headers, error_headers, open_call, start_call
from lamella.simulator.anthropic.encoder import error_body
from lamella.simulator.anthropic.exchange import Answer, accept, answer
from lamella.simulator.anthropic.request import parse
from lamella.simulator.anthropic.validation import check_max_tokens, check_size, known_model
from lamella.simulator.connection import DroppedResponse, EventStream
from lamella.simulator.errors import ProviderError
from lamella.simulator.models import MODELS
from lamella.simulator.state import Simulator
from lamella.simulator.stream import play

RELEASED = "2026-01-01T00:00:00Z"


class AnthropicRoutes:
    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    async def messages(self, http: Request) -> Response:
        """POST /v1/messages"""
        call = await open_call(http, self._simulator, "anthropic")
        try:
            start_call(call, http, self._simulator)
            self._simulator.admit(call.account, call.now)
            check_size(call.body)
            request = parse(call.body)
            model = known_model(request.model)
            check_max_tokens(request, model)
            accepted = accept(request, model, call, self._simulator)
            decided = answer(accepted, call, self._simulator)
        except ProviderError as error:
            return self._refuse(error, call)
        if decided.fault is not None and decided.fault.name == "drop_before":
            return DroppedResponse()
        return self._stream(decided, call) if request.stream else await self._whole(decided, call)

    async def count_tokens(self, http: Request) -> Response:
        """POST /v1/messages/count_tokens: free, ignores caching."""
        call = await open_call(http, self._simulator, "anthropic")
        try:
            start_call(call, http, self._simulator)
            request = parse(call.body)
            model = known_model(request.model)
            counted = accept(request, model, call, self._simulator).prefix.total
        except ProviderError as error:
            return self._refuse(error, call)
        call.record.model, call.record.finished = model.id, True
        headers = anthropic_headers(call, self._simulator)
        return JSONResponse({"input_tokens": counted}, headers=headers)

    async def models(self, http: Request) -> Response:
        """GET /v1/models"""
        call = await open_call(http, self._simulator, "anthropic")
        try:
            start_call(call, http, self._simulator)
        except ProviderError as error:
            return self._refuse(error, call)
        rows = [
            {
                "type": "model",
                "id": model.id,
                "display_name": model.id.replace("-", " ").title(),
                "created_at": RELEASED,
                "lifecycle": "active",
                "max_input_tokens": model.window,
                "max_tokens": model.max_output,
            }
            for model in MODELS
            if "anthropic" in model.wires
        ]
        page = {"data": rows, "has_more": False, "first_id": rows[0]["id"], "last_id": rows[-1]["id"]}
        return JSONResponse(page, headers=anthropic_headers(call, self._simulator))

    def _stream(self, decided: Answer, call: Call) -> Response:
        clock = self._simulator.clock
        events = play(decided.draft, decided.encoder, decided.pace, decided.chunk, decided.cut, clock, call.record)
        return EventStream(events, anthropic_headers(call, self._simulator))

    async def _whole(self, decided: Answer, call: Call) -> Response:
        length = sum(len(part.text) for part in decided.draft.parts)
        await self._simulator.clock.sleep(decided.pace.first + decided.pace.seconds(length, length))
        if decided.cut is not None:
            return self._refuse(decided.cut.error, call) if decided.cut.error else DroppedResponse()
        call.record.streamed, call.record.finished = length, True
        return JSONResponse(decided.encoder.message(), headers=anthropic_headers(call, self._simulator))

    def _refuse(self, error: ProviderError, call: Call) -> Response:
        call.record.status, call.record.error = error.status, error.message
        headers = anthropic_headers(call, self._simulator) | error_headers(error)
        return JSONResponse(error_body(error, call.request_id), status_code=error.status, headers=headers)
