"""The HTTP route of the embeddings."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from lamella_simulator.access import Call, openai_headers
from lamella_simulator.embeddings.exchange import EmbeddingsEncoder, answer
from lamella_simulator.openai.encoder import error_body
from lamella_simulator.serving import WireRoutes
from lamella_simulator.state import Simulator
from lamella_simulator.stream import Answer


class EmbeddingsRoutes(WireRoutes):
    def __init__(self, simulator: Simulator) -> None:
        super().__init__(simulator, "embeddings", openai_headers, error_body)

    async def embeddings(self, http: Request) -> Response:
        """POST /v1/embeddings"""
        return await self._answer(http, self._embed)

    def _embed(self, call: Call) -> Answer[EmbeddingsEncoder]:
        return answer(call, self._simulator)
