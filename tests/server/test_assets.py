"""The files of the page: kept by browsers for good, and sent compressed to those that take that."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from lamella.server.web import Assets

SCRIPT = "export const words = 'the same, again and again'\n" * 50


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    (tmp_path / "index-1.js").write_text(SCRIPT)
    (tmp_path / "index-1.js.gz").write_bytes(gzip.compress(SCRIPT.encode()))
    (tmp_path / "font-1.woff2").write_bytes(b"wOF2")
    return TestClient(Assets(tmp_path))


@pytest.mark.parametrize(("takes", "encoding"), [("gzip, br", "gzip"), ("identity", None), ("br", None)])
def test_a_script_comes_compressed_to_who_takes_it(client: TestClient, takes: str, encoding: str | None) -> None:
    answer = client.get("/index-1.js", headers={"accept-encoding": takes})
    assert answer.text == SCRIPT
    assert answer.headers.get("content-encoding") == encoding
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["vary"] == "accept-encoding"
    sent = int(answer.headers["content-length"])
    assert sent < len(SCRIPT) / 10 if encoding else sent == len(SCRIPT)


def test_files_are_kept_and_asked_for_no_more(client: TestClient) -> None:
    font = client.get("/font-1.woff2")
    assert font.content == b"wOF2"
    assert font.headers["cache-control"] == "public, max-age=31536000, immutable"
    with pytest.raises(HTTPException):
        client.get("/gone.js")
