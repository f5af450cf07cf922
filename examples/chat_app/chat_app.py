"""A FastAPI application with chat inside: `uvicorn chat_app:app`.

Lamella's API stands under `/chat/api/v1`; `/ask` is a route of the application that uses the same backend in process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request

from lamella.app.app import open_app
from lamella.chat.message import ExecutionRequest
from lamella.server.web import create_web
from lamella.settings import read_settings


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The backend is open as long as the application runs; its folder is LAMELLA_DATA."""
    async with open_app(read_settings()) as lamella:
        app.state.lamella = lamella
        app.mount("/chat", create_web(lamella))
        yield


async def ask(question: str, request: Request) -> dict[str, object]:
    """The answer to a question, with what it cost in US dollars."""
    turn = await request.app.state.lamella.run(ExecutionRequest(text=question))
    return {"answer": turn.run.answer, "cost": turn.run.cost, "turn_id": turn.id}


def make_app() -> FastAPI:
    """The application; its routes begin to answer when its lifespan begins."""
    made = FastAPI(lifespan=lifespan)
    made.get("/ask")(ask)
    return made


app = make_app()
