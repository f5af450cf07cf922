from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lamella.app.app import App
from lamella.server.testing import ServerClient, served
from lamella.settings import Settings, read_settings
from lamella_simulator.provider import Provider, simulated


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with simulated() as found:
        yield found


def settings_of(provider_url: str, openai_url: str, data: Path) -> Settings:
    """A server whose providers both are at these addresses."""
    return read_settings(
        data=data,
        anthropic_api_key="sk-upstream",
        anthropic_base_url=provider_url,
        openai_api_key="sk-upstream",
        openai_base_url=openai_url,
    )


@pytest.fixture
async def door(provider: Provider, tmp_path: Path, anyio_backend: str) -> AsyncIterator[tuple[App, ServerClient]]:
    async with served(settings_of(provider.url, provider.openai_url, tmp_path)) as made:
        yield made


@pytest.fixture
def app(door: tuple[App, ServerClient]) -> App:
    return door[0]


@pytest.fixture
def client(door: tuple[App, ServerClient]) -> ServerClient:
    return door[1]
