"""The HTTP routes of the Messages wire."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from lamella_simulator.access import Call, anthropic_headers
from lamella_simulator.anthropic.encoder import MessageEncoder, error_body
from lamella_simulator.anthropic.exchange import accept, answer
from lamella_simulator.anthropic.request import parse
from lamella_simulator.anthropic.validation import check_max_tokens, check_size, known_model
from lamella_simulator.models import MODELS
from lamella_simulator.serving import WireRoutes
from lamella_simulator.state import Simulator
from lamella_simulator.stream import Answer

RELEASED = "2026-01-01T00:00:00Z"


class AnthropicRoutes(WireRoutes):
    def __init__(self, simulator: Simulator) -> None:
        super().__init__(simulator, "anthropic", anthropic_headers, error_body)

    async def messages(self, http: Request) -> Response:
        """POST /v1/messages"""
        return await self._answer(http, self._message)

    async def count_tokens(self, http: Request) -> Response:
        """POST /v1/messages/count_tokens: free, ignores caching."""
        return await self._tell(http, self._count)

    async def models(self, http: Request) -> Response:
        """GET /v1/models"""
        return await self._tell(http, self._models)

    def _message(self, call: Call) -> Answer[MessageEncoder]:
        check_size(call.body)
        request = parse(call.body)
        model = known_model(request.model)
        check_max_tokens(request, model)
        return answer(accept(request, model, call, self._simulator), call, self._simulator)

    def _count(self, call: Call) -> dict[str, Any]:
        check_size(call.body)
        request = parse(call.body)
        model = known_model(request.model)
        accepted = accept(request, model, call, self._simulator)
        counted = {"input_tokens": self._simulator.counted(accepted.prefix)}
        call.record.model = model.id
        if request.context_management is None:
            return counted
        original = accepted.edited.original or accepted.prefix.total
        return {**counted, "context_management": {"original_input_tokens": original}}

    def _models(self, _: Call) -> dict[str, Any]:
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
        return {"data": rows, "has_more": False, "first_id": rows[0]["id"], "last_id": rows[-1]["id"]}
