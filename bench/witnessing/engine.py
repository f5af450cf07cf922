"""llama.cpp's server with one slot and one thread, in a process of its own, over a model file.

python bench/witnessing/engine.py MODEL.gguf prints the server's address and serves until its stdin closes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import xllamacpp

CONTEXT = 32_768


def serve(model: Path) -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.n_gpu_layers = 0
    parameters.warmup = False
    parameters.fit_params = False
    parameters.ui = False
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


@contextmanager
def engine(model: Path) -> Iterator[httpx2.Client]:
    """A client of a serving engine."""
    command = [sys.executable, __file__, str(model)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                raise RuntimeError("the engine did not start")
            with httpx2.Client(base_url=address, timeout=60, trust_env=False) as client:
                yield client
        finally:
            process.kill()


def read_by(client: httpx2.Client, messages: list[dict[str, str]]) -> tuple[int, int]:
    """Tokens that the engine read from its cache, and tokens of the prompt, as its usage tells them."""
    body = {"model": "tiny", "messages": messages, "max_tokens": 1, "temperature": 0, "cache_prompt": True}
    answer = client.post("/v1/chat/completions", json=body)
    answer.raise_for_status()
    usage = answer.json()["usage"]
    return int(usage["prompt_tokens_details"]["cached_tokens"]), int(usage["prompt_tokens"])


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
