from collections.abc import Iterator

import pytest

from lamella_simulator.testing import InProcess, running


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def provider() -> InProcess:
    """A fresh simulator whose token counts are exact."""
    return InProcess()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """A real listening simulator, shared by the tests that need a socket."""
    with running() as url:
        yield url
