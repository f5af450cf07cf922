"""Makes a release: `python release.py VERSION [--dry-run]`.

Checks that the working tree is clean and that the changelog says something about what is released, sets the version in
`src/lamella/__init__.py`, dates the changelog's section, builds the wheel into `dist/`, commits, and tags `vVERSION`.
Nothing is pushed or published. `--dry-run` prints the steps and changes nothing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
UNRELEASED = re.compile(r"^## (?:Unreleased|(?P<version>\S+) \(unreleased\))$", re.MULTILINE | re.IGNORECASE)


class NotReleasable(Exception):
    """Why no release can be made now."""


def numbers(version: str) -> tuple[int, ...]:
    """`0.2.0` as (0, 2, 0); raises `NotReleasable`."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise NotReleasable(f"{version} is no version such as 0.2.0.")
    return tuple(int(part) for part in version.split("."))


def bumped(source: str, version: str) -> str:
    """The package's `__init__.py` with the new version; the first release may keep the one that it has."""
    found = VERSION.search(source)
    if found is None:
        raise NotReleasable("src/lamella/__init__.py has no __version__.")
    if numbers(version) < numbers(found[1]):
        raise NotReleasable(f"{version} is older than {found[1]}.")
    return VERSION.sub(f'__version__ = "{version}"', source)


def dated(changelog: str, version: str, today: date) -> str:
    """The changelog with `## VERSION (2026-11-24)` in place of the unreleased section, which must have entries."""
    if re.search(rf"^## {re.escape(version)} \(\d", changelog, re.MULTILINE):
        raise NotReleasable(f"CHANGELOG.md has {version} already.")
    found = UNRELEASED.search(changelog)
    if found is None:
        raise NotReleasable("CHANGELOG.md has no unreleased section.")
    if found["version"] not in (None, version):
        raise NotReleasable(f"CHANGELOG.md announces {found['version']}, not {version}.")
    entries = re.split(r"^## ", changelog[found.end() :], maxsplit=1, flags=re.MULTILINE)[0]
    if not re.search(r"^- ", entries, re.MULTILINE):
        raise NotReleasable("The unreleased section of CHANGELOG.md is empty.")
    return f"{changelog[: found.start()]}## {version} ({today.isoformat()}){changelog[found.end() :]}"


def release(root: Path, version: str, today: date, *, dry: bool, python: str = sys.executable) -> list[str]:
    """Make the release, or only say how: the steps in order. Raises `NotReleasable`, and then nothing has changed."""
    package, changelog = root / "src" / "lamella" / "__init__.py", root / "CHANGELOG.md"
    source = bumped(package.read_text("utf-8"), version)
    history = dated(changelog.read_text("utf-8"), version, today)
    if _git(root, "status", "--porcelain"):
        raise NotReleasable("The working tree has changes. Commit them first.")
    if _git(root, "tag", "--list", f"v{version}"):
        raise NotReleasable(f"The tag v{version} is there already.")
    steps = [
        f"set __version__ to {version}",
        f"date the changelog's section {version}",
        "build the wheel into dist/",
        f"commit “Release {version}”",
        f"tag v{version}",
    ]
    if not dry:
        package.write_text(source, "utf-8")
        changelog.write_text(history, "utf-8")
        subprocess.run([python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "dist", "."], cwd=root, check=True)
        _git(root, "commit", "--all", "--message", f"Release {version}")
        _git(root, "tag", "--annotate", f"v{version}", "--message", f"Lamella {version}")
    return steps


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise NotReleasable(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    given = parser.parse_args()
    try:
        steps = release(ROOT, given.version, date.today(), dry=given.dry_run)
    except NotReleasable as error:
        sys.exit(str(error))
    sys.stdout.write("".join(f"{'would ' if given.dry_run else 'done: '}{step}\n" for step in steps))
    sys.stdout.write(f"Then: git push --follow-tags, and publish dist/lamella-{given.version}-py3-none-any.whl\n")


if __name__ == "__main__":
    main()
