from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lamella.core.errors import ConfigurationError
from lamella.storage import FolderLock

_HOLDER = """
import sys, time
from pathlib import Path
from lamella.storage.folder import FolderLock
FolderLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_process_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", _HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    lock = FolderLock(tmp_path)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(ConfigurationError) as caught:
            lock.acquire()
        child.kill()
    assert caught.value.message == f"Another lamella serves this data folder (pid {child.pid})."
    with lock:
        assert (tmp_path / "lamella.lock").read_text() == f"{os.getpid()}\n"


def test_a_folder_is_made_held_and_let_go(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with FolderLock(folder) as lock:
        lock.acquire()
        with pytest.raises(ConfigurationError, match=f"pid {os.getpid()}"), FolderLock(folder):
            pass
    with FolderLock(folder):
        pass


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        FolderLock(tmp_path / "file" / "data").acquire()
