"""Start time and idle memory of the server; with --install also the size and time of a fresh environment.

    python bench/footprint.py [--install] [--json]

Memory is that of the server's own process: the demonstration's simulator is another one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import server, until_healthy
from tables import arguments, emit, middle, show

ROUNDS = 5
ROOT = Path(__file__).resolve().parents[1]
SETTLE_SECONDS = 6.0
"""How long the server is left alone before its memory is read: the provider's SDK is loaded by then."""


def start_and_idle(settle: float) -> tuple[float, float, float]:
    """Seconds to the address, seconds to the first answer, resident megabytes when idle."""
    begun = time.perf_counter()
    with server({"ANTHROPIC_API_KEY": "bench", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}) as running:
        until_healthy(running.url)
        healthy = time.perf_counter() - begun
        time.sleep(settle)
        return running.announced, healthy, resident(running.pid)


def resident(pid: int) -> float:
    """Resident megabytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return int(kilobytes) / 1000


def install() -> tuple[float, float]:
    """Seconds and megabytes of the runtime environment, made from the pins with an empty cache or none."""
    with tempfile.TemporaryDirectory(prefix="lamella-install-") as folder:
        uv = shutil.which("uv")
        begun = time.perf_counter()
        python = Path(folder) / "venv" / "bin" / "python"
        if uv is not None:
            subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(python.parents[1])], check=True)
            tool = [uv, "pip", "install", "-q", "--python", str(python)]
        else:
            subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
            tool = [str(python), "-m", "pip", "install", "-q"]
        subprocess.run([*tool, "-c", str(ROOT / "constraints.txt"), "-e", str(ROOT)], check=True)
        seconds = time.perf_counter() - begun
        size = sum(file.lstat().st_size for file in python.parents[1].rglob("*") if file.is_file())
        return seconds, size / 1e6


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--install", action="store_true", help="also install into a fresh environment")
    given = parser.parse_args()
    rounds = [start_and_idle(SETTLE_SECONDS if n == 0 else 0.0) for n in range(ROUNDS)]
    figures = {
        "address_seconds": middle([announced for announced, _, _ in rounds]),
        "healthy_seconds": middle([healthy for _, healthy, _ in rounds]),
        "idle_megabytes": rounds[0][2],
    }
    if given.install:
        figures["install_seconds"], figures["install_megabytes"] = install()
    if given.json:
        emit(figures)
        return
    show([["figure", "value"], *([name, f"{value:.2f}"] for name, value in figures.items())])


if __name__ == "__main__":
    main()
