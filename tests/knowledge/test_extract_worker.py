"""What the reading child loads and how it is confined."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lamella.knowledge.extraction import WORKER_MODULE, ExtractionLimits
from lamella.knowledge.extraction_job import ExtractionJob

from .pdf_writer import PdfPage, write_pdf

HEAVY = ("xberg", "pypdfium2", "asyncio", "anyio", "msgspec", "zoneinfo", "pydantic", "bpe_openai.compat")


@pytest.mark.parametrize(
    ("data", "needed"),
    [(b"plain words", frozenset()), (write_pdf([PdfPage("Title", [])]), frozenset({"pypdfium2"}))],
)
def test_a_file_pays_only_for_its_own_reader(tmp_path: Path, data: bytes, needed: frozenset[str]) -> None:
    path = tmp_path / "upload"
    path.write_bytes(data)
    child = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", WORKER_MODULE],
        input=ExtractionJob(str(path), "a.txt", ExtractionLimits()).to_line(),
        capture_output=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in child.stderr.decode().splitlines()}
    assert loaded.intersection(HEAVY) == needed
    assert json.loads(child.stdout.splitlines()[0])["tokens"] > 0


def test_a_job_survives_the_pipe() -> None:
    job = ExtractionJob("/tmp/ü\udcff", 'a"\n\ud800.md', ExtractionLimits(seconds=0.5))
    line = job.to_line()
    assert line.count(b"\n") == 1
    assert ExtractionJob.from_line(line) == job
