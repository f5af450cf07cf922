"""What the browser tests share: Chromium, real servers, and a small PDF to ask about."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from lamella.server.web import page_folder

from .manual import write_manual
from .servers import Model, Server, Watched, running

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


PATIENCE_MS = 30_000
"""How long a test waits for what it expects: on a busy machine a first answer takes seconds."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium of the system; the module ends it, because its event loop would hinder asynchronous tests."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium on the PATH: install it to run the page's tests")
    if not (page_folder() / "index.html").is_file():
        pytest.skip("the page is not built: run `python webbuild.py`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        expect.set_options(timeout=PATIENCE_MS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without a key: the offline demonstration."""
    with running(Server(tmp_path_factory.mktemp("demo"))) as server:
        yield server


@pytest.fixture(scope="module")
def simulator() -> Iterator[Model]:
    """A provider whose answers come as slowly as a test wants."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lamella_simulator", "--clock", "system", "--exit-with-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    yield Model(msgspec.json.decode(process.stdout.readline())["simulator"])
    process.stdin.close()
    process.wait(timeout=10)


@pytest.fixture
def model(simulator: Model) -> Iterator[Model]:
    """The same at full speed, until a test slows it down."""
    simulator.pace(0)
    yield simulator
    simulator.pace(0)


@pytest.fixture(scope="module")
def server(simulator: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose provider is the simulator."""
    environment = {"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": simulator.url}
    with running(Server(tmp_path_factory.mktemp("server"), environment)) as server:
        yield server


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def page(browser: Browser, watched: Watched) -> Iterator[Page]:
    """A fresh page; it may ask its own server only, and has to keep silent."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, timezone_id="Europe/Berlin")
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.on("console", watched.hear)
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.on("request", watched.see)
    yield page
    context.close()
    assert not [url for url in watched.asked if not url.startswith(("http://127.0.0.1:", "data:", "blob:"))]


@pytest.fixture(scope="session")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pages; the second says how often the pump is serviced."""
    path = tmp_path_factory.mktemp("files") / "manual.pdf"
    path.write_bytes(write_manual())
    return path
