"""A server over a scripted model, and one over a provider's simulator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lamella.app.app import App
from lamella.llm.scripted import ScriptedModel, ScriptedModels
from lamella.server.testing import ServerClient, served
from lamella.settings import read_settings
from lamella_simulator.testing import running

from .stage import Playback, staged


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def provider() -> Iterator[str]:
    """The address of a simulated provider in a process of its own, on real time."""
    with running("--clock", "system") as url:
        yield url


@pytest.fixture
async def stage(provider: str, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Playback]:
    """A server whose model is the simulator."""
    async with staged(provider, tmp_path) as opened:
        yield opened


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def scripted(model: ScriptedModel, tmp_path: Path, anyio_backend: str) -> AsyncIterator[tuple[App, ServerClient]]:
    """A server whose model follows a script."""
    async with served(read_settings(data=tmp_path), silence=0.2, models=ScriptedModels(model)) as opened:
        yield opened


@pytest.fixture
def app(scripted: tuple[App, ServerClient]) -> App:
    return scripted[0]


@pytest.fixture
def client(scripted: tuple[App, ServerClient]) -> ServerClient:
    return scripted[1]
