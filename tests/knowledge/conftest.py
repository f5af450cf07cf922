"""What the tests of file reading share: an extractor that takes bytes, and a view of its children."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Protocol

import pytest

from lamella.knowledge.extraction import Extraction, ExtractionLimits, ProcessExtractor


class Extract(Protocol):
    """Stores bytes as an upload and reads them."""

    def __call__(self, data: bytes, name: str, limits: ExtractionLimits | None = None) -> Awaitable[Extraction]: ...


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def extract(tmp_path: Path) -> Extract:
    """Reads bytes as if they had been uploaded under a name."""

    async def read(data: bytes, name: str, limits: ExtractionLimits | None = None) -> Extraction:
        path = tmp_path / "upload"
        path.write_bytes(data)
        return await ProcessExtractor(limits).extract(path, name)

    return read
