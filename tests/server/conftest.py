"""A server over a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from lamella.app.app import App
from lamella.llm.scripted import ScriptedModel, ScriptedModels
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def plain_logs() -> None:
    """Without this a logged exception is drawn with all its variables, which takes seconds."""
    structlog.configure(processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()])


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def scripted(model: ScriptedModel, tmp_path: Path, anyio_backend: str) -> AsyncIterator[tuple[App, ServerClient]]:
    """A server whose model follows a script."""
    async with served(read_settings(data=tmp_path), models=ScriptedModels(model)) as opened:
        yield opened


@pytest.fixture
def app(scripted: tuple[App, ServerClient]) -> App:
    return scripted[0]


@pytest.fixture
def client(scripted: tuple[App, ServerClient]) -> ServerClient:
    return scripted[1]
