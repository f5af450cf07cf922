"""The HTTP routes of the Chat Completions wire."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from lamella_simulator.access import Call, openai_headers
from lamella_simulator.models import MODELS
from lamella_simulator.openai.encoder import ChatEncoder, error_body
from lamella_simulator.openai.exchange import answer
from lamella_simulator.openai.request import parse
from lamella_simulator.openai.validation import known_model, validate
from lamella_simulator.serving import WireRoutes
from lamella_simulator.state import Simulator
from lamella_simulator.stream import Answer

RELEASED = 1_767_225_600


class OpenAIRoutes(WireRoutes):
    def __init__(self, simulator: Simulator) -> None:
        super().__init__(simulator, "openai", openai_headers, error_body)

    async def chat(self, http: Request) -> Response:
        """POST /v1/chat/completions"""
        return await self._answer(http, self._chat)

    async def models(self, http: Request) -> Response:
        """GET /v1/models"""
        return await self._tell(http, self._models)

    def _chat(self, call: Call) -> Answer[ChatEncoder]:
        request = parse(call.body)
        model = known_model(request.model)
        validate(request, model)
        return answer(request, model, call, self._simulator)

    def _models(self, _: Call) -> dict[str, Any]:
        rows = [
            {"id": model.id, "object": "model", "created": RELEASED, "owned_by": "lamella-simulator"}
            for model in MODELS
            if {"openai", "embeddings"} & set(model.wires)
        ]
        return {"object": "list", "data": rows}
