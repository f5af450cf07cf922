"""The release script: a dry run changes nothing, and nothing is released that the changelog does not announce."""

from __future__ import annotations

import importlib.util
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TODAY = date(2027, 1, 31)
CHANGES = "# Changelog\n\n## Unreleased\n\n- Something new.\n\n## 0.1.0 (2026-12-01)\n\n- The first.\n"


def _module() -> Any:
    spec = importlib.util.spec_from_file_location("release", ROOT / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RELEASE = _module()


def _git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "src" / "lamella").mkdir(parents=True)
    (tmp_path / "src" / "lamella" / "__init__.py").write_text('"""Doc."""\n\n__version__ = "0.1.0"\n', "utf-8")
    (tmp_path / "CHANGELOG.md").write_text(CHANGES, "utf-8")
    _git(tmp_path, "init", "--quiet")
    _git(tmp_path, "add", "--all")
    _git(tmp_path, "commit", "--quiet", "--message", "All")
    return tmp_path


def test_a_dry_run_says_the_steps_and_changes_nothing(repository: Path) -> None:
    steps = RELEASE.release(repository, "0.2.0", TODAY, dry=True)
    assert [step.split()[0] for step in steps] == ["set", "date", "build", "commit", "tag"]
    assert _git(repository, "status", "--porcelain") == ""
    assert _git(repository, "tag") == ""


def test_a_release_sets_the_version_dates_the_changelog_and_tags(repository: Path) -> None:
    for name, email in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        _git(repository, "config", name, email)
    RELEASE.release(repository, "0.2.0", TODAY, dry=False, python="true")  # builds no wheel
    assert '__version__ = "0.2.0"' in (repository / "src" / "lamella" / "__init__.py").read_text("utf-8")
    assert "## 0.2.0 (2027-01-31)\n\n- Something new." in (repository / "CHANGELOG.md").read_text("utf-8")
    assert _git(repository, "tag").strip() == "v0.2.0"
    assert _git(repository, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("changelog", "version", "why"),
    [
        (CHANGES, "0.0.9", "older than 0.1.0"),
        (CHANGES, "0.1.0", "has 0.1.0 already"),
        (CHANGES, "next", "is no version"),
        (CHANGES.replace("Unreleased", "0.3.0 (unreleased)"), "0.2.0", "announces 0.3.0"),
        (CHANGES.replace("- Something new.\n", ""), "0.2.0", "is empty"),
        ("# Changelog\n", "0.2.0", "no unreleased section"),
    ],
)
def test_what_is_not_released(repository: Path, changelog: str, version: str, why: str) -> None:
    (repository / "CHANGELOG.md").write_text(changelog, "utf-8")
    if changelog != CHANGES:
        _git(repository, "commit", "--quiet", "--all", "--message", "Another changelog")
    with pytest.raises(RELEASE.NotReleasable, match=why):
        RELEASE.release(repository, version, TODAY, dry=False, python="false")


def test_changes_that_are_not_committed_stop_a_release(repository: Path) -> None:
    (repository / "left.txt").write_text("left", "utf-8")
    with pytest.raises(RELEASE.NotReleasable, match="Commit them first"):
        RELEASE.release(repository, "0.2.0", TODAY, dry=False, python="false")


def test_the_changelog_of_this_repository_can_be_released() -> None:
    version = RELEASE.VERSION.search((ROOT / "src" / "lamella" / "__init__.py").read_text("utf-8"))[1]
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"## {version} (" in text or RELEASE.UNRELEASED.search(text)
