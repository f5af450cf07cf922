"""Start time and idle memory of the server; with --install also the size of a fresh environment and of the wheel.

    python bench/footprint.py [--rounds 5] [--install] [--json]
    python bench/footprint.py --packages        # megabytes of each package that a server needs, and who needs it

Memory is that of the server's own process, with the adapter loaded; the demonstration's simulator is another.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import PackagePath, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from processes import KEY, Memory, children_of, memory_of, server, until_healthy
from tables import arguments, emit, middle, show

ROOT = Path(__file__).resolve().parents[1]
SETTLE_SECONDS = 8.0
"""How long a server is left alone before its memory is read: the provider's adapter is loaded by then."""

PROVIDER = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
DEMONSTRATION: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the command to the line with the address, and to the first answer of `/healthz`."""

    announced: float
    healthy: float


def start(folder: Path) -> Start:
    """Start a server over a data folder and end it again."""
    begun = time.perf_counter()
    with server(PROVIDER, folder=folder) as running:
        until_healthy(running.url)
        return Start(running.announced, time.perf_counter() - begun)


def idle(environment: dict[str, str]) -> tuple[Memory, list[Memory]]:
    """What an idle server holds, and each of its children."""
    with server(environment) as running:
        until_healthy(running.url)
        time.sleep(SETTLE_SECONDS)
        return memory_of(running.pid), [memory_of(child) for child in children_of(running.pid)]


def install() -> dict[str, float]:
    """Seconds and megabytes of the runtime environment, made from the pins, and megabytes of the wheel."""
    with tempfile.TemporaryDirectory(prefix="lamella-install-") as made:
        venv, wheels = Path(made) / "venv", Path(made) / "wheels"
        uv = shutil.which("uv")
        begun = time.perf_counter()
        if uv is not None:
            run(uv, "venv", "-q", "--python", sys.executable, str(venv))
            run(uv, "pip", "install", "-q", "--python", str(venv), "-c", str(ROOT / "constraints.txt"), str(ROOT))
            seconds = time.perf_counter() - begun
            run(uv, "build", "-q", "--wheel", "--out-dir", str(wheels), str(ROOT))
        else:
            pip = [str(venv / "bin" / "python"), "-m", "pip"]
            run(sys.executable, "-m", "venv", str(venv))
            run(*pip, "install", "-q", "-c", str(ROOT / "constraints.txt"), str(ROOT))
            seconds = time.perf_counter() - begun
            run(*pip, "wheel", "-q", "--no-deps", "--wheel-dir", str(wheels), str(ROOT))
        return {"install_seconds": seconds, "install_mb": size_of(venv), "wheel_mb": size_of(wheels)}


def run(*command: str) -> None:
    """Run a command to its end; raises `CalledProcessError` when it fails."""
    subprocess.run(command, check=True)


def size_of(folder: Path) -> float:
    """Megabytes of the files under a folder."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def measure(rounds: int) -> dict[str, float]:
    """The figures of the server; the first start makes the database and is not counted."""
    with tempfile.TemporaryDirectory(prefix="lamella-bench-") as made:
        first = start(Path(made))
        starts = [start(Path(made)) for _ in range(rounds)]
    mine, _ = idle(PROVIDER)
    shown, children = idle(DEMONSTRATION)
    return {
        "first_start_seconds": first.healthy,
        "address_seconds": middle([s.announced for s in starts]),
        "healthy_seconds": middle([s.healthy for s in starts]),
        "idle_rss_mb": mine.rss,
        "idle_pss_mb": mine.pss,
        "demonstration_rss_mb": shown.rss,
        "demonstration_simulator_rss_mb": sum(child.rss for child in children),
    }


def packages(of: str = "lamella") -> list[tuple[str, float, str]]:
    """Name, megabytes and up to four requirers of each package that a distribution needs here, the largest first.

    Extras are not counted. A package has its files as pip recorded them, compiled ones included.
    """
    requirers: dict[str, list[str]] = {}
    waiting = [of]
    while waiting:
        requirer = waiting.pop()
        for text in distribution(requirer).requires or ():
            needed = Requirement(text)
            if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
                continue
            name = canonicalize_name(needed.name)
            if name not in requirers:
                waiting.append(name)
            requirers.setdefault(name, []).append(requirer)
    sizes = {name: sum(map(_size, distribution(name).files or ())) / 1e6 for name in requirers}
    most = sorted(sizes, key=lambda name: -sizes[name])
    return [(name, sizes[name], ", ".join(sorted(requirers[name])[:4])) for name in most]


def _size(file: PackagePath) -> int:
    path = Path(str(file.locate()))
    return path.lstat().st_size if path.is_file() else 0


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--install", action="store_true", help="also install into a fresh environment")
    parser.add_argument("--packages", action="store_true", help="only the packages of this environment")
    options = parser.parse_args()
    if options.packages:
        rows = packages()
        rows.append(("all", sum(size for _, size, _ in rows), ""))
        show([["package", "MB", "needed by"], *([name, f"{size:.1f}", who] for name, size, who in rows)])
        return
    figures = measure(options.rounds) | (install() if options.install else {})
    if options.json:
        emit(figures)
    else:
        show([["figure", "value"], *([name, f"{value:.2f}"] for name, value in figures.items())])


if __name__ == "__main__":
    main()
