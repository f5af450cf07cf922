"""LiteLLM's proxy in front of the simulator, from an environment of its own: it is no part of this project."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2

from processes import KEY, Running, clean_environment

START = 180.0
MODEL = "bench"
PROXY_KEY = "sk-bench"
MODEL_ENTRY = """\
  - model_name: {name}
    litellm_params:
      model: {model}
      api_base: {url}
      api_key: {key}
"""
ADVICE = "python -m venv FOLDER && FOLDER/bin/pip install 'litellm[proxy]', then load.py --litellm FOLDER"


def version_of(environment: Path) -> str:
    """The version that is installed there; "" where none is."""
    asked = "from importlib.metadata import version; print(version('litellm'))"
    python = environment / "bin" / "python"
    if not (environment / "bin" / "litellm").exists():
        return ""
    return subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def proxy(environment: Path, model: str, url: str) -> Iterator[Running]:
    """Its proxy for one Anthropic model of the provider at `url`."""
    with proxies(environment, {MODEL: (f"anthropic/{model}", url)}) as found:
        yield found


@contextmanager
def proxies(environment: Path, models: Mapping[str, tuple[str, str]]) -> Iterator[Running]:
    """Its proxy with one worker, as it comes. `models` has for each name the provider's model and address."""
    with tempfile.TemporaryDirectory(prefix="lamella-bench-") as folder:
        told = Path(folder) / "config.yaml"
        entries = [
            MODEL_ENTRY.format(name=name, model=model, url=url, key=KEY) for name, (model, url) in models.items()
        ]
        settings = f"general_settings:\n  master_key: {PROXY_KEY}\n"
        told.write_text("".join(["model_list:\n", *entries, settings]))
        port = _free_port()
        command = [str(environment / "bin" / "litellm"), "--config", str(told), "--host", "127.0.0.1"]
        local = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        begun = time.perf_counter()
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--port", str(port), "--telemetry", "False"],
                env=clean_environment() | local,
                stdout=log,
                stderr=log,
            )
        try:
            address = f"http://127.0.0.1:{port}"
            _until_up(process, address, Path(folder) / "log")
            yield Running(process.pid, address, time.perf_counter() - begun)
        finally:
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _until_up(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    end = time.perf_counter() + START
    while process.poll() is None and time.perf_counter() < end:
        try:
            if httpx2.get(f"{address}/health/liveliness", timeout=2, trust_env=False).status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.3)
    raise RuntimeError(f"LiteLLM's proxy did not start: {log.read_text()[-2000:]}")
