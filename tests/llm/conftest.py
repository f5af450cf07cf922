from __future__ import annotations

from collections.abc import Iterator

import pytest

from lamella_simulator.testing import running

from .provider import Provider


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def virtual() -> Iterator[Provider]:
    """A simulator on virtual time, in its own process."""
    with running("--option", "openai_reasoning_content=true") as url:
        yield Provider(url)


@pytest.fixture(scope="session")
def real() -> Iterator[Provider]:
    """A simulator on the machine's time: it can be slow."""
    with running("--clock", "system") as url:
        yield Provider(url)


@pytest.fixture
def provider(virtual: Provider) -> Provider:
    """The simulator on virtual time, with nothing in its cache and its log."""
    virtual.reset()
    return virtual


@pytest.fixture
def slow_provider(real: Provider) -> Provider:
    """The simulator on real time, with nothing in its cache and its log."""
    real.reset()
    return real
