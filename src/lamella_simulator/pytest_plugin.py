"""A pytest plugin with one fixture, `simulated_provider`.

The distribution `lamella-simulator` registers it. With `lamella` alone, write in `conftest.py`:
`pytest_plugins = ["lamella_simulator.pytest_plugin"]`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lamella_simulator.provider import Provider, simulated


@pytest.fixture
def simulated_provider() -> Iterator[Provider]:
    """A simulated provider of this test's own; `lamella_simulator.simulated(...)` takes options."""
    with simulated() as provider:
        yield provider
