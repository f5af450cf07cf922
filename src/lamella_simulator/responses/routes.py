"""The HTTP routes of the Responses wire."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from lamella_simulator.access import Call, openai_headers
from lamella_simulator.openai.encoder import error_body
from lamella_simulator.openai.validation import known_model
from lamella_simulator.responses.encoder import CompactionEncoder, ResponsesEncoder
from lamella_simulator.responses.exchange import accept, answer, compaction
from lamella_simulator.responses.request import parse
from lamella_simulator.serving import WireRoutes
from lamella_simulator.state import Simulator
from lamella_simulator.stream import Answer


class ResponsesRoutes(WireRoutes):
    def __init__(self, simulator: Simulator) -> None:
        super().__init__(simulator, "openai", openai_headers, error_body)

    async def responses(self, http: Request) -> Response:
        """POST /v1/responses"""
        return await self._answer(http, self._respond)

    async def compact(self, http: Request) -> Response:
        """POST /v1/responses/compact"""
        return await self._answer(http, self._compact)

    async def input_tokens(self, http: Request) -> Response:
        """POST /v1/responses/input_tokens"""
        return await self._tell(http, self._count)

    def _respond(self, call: Call) -> Answer[ResponsesEncoder]:
        request = parse(call.body)
        model = known_model(request.model)
        return answer(request, model, accept(request, model, call, self._simulator), call, self._simulator)

    def _compact(self, call: Call) -> Answer[CompactionEncoder]:
        request = parse(call.body)
        model = known_model(request.model)
        return compaction(request, model, accept(request, model, call, self._simulator), call, self._simulator)

    def _count(self, call: Call) -> dict[str, Any]:
        request = parse(call.body)
        prefix = accept(request, known_model(request.model), call, self._simulator)
        return {"object": "response.input_tokens", "input_tokens": self._simulator.counted(prefix)}
