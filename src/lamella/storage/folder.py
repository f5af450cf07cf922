"""The lock that keeps a data folder to one process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType

from lamella.core.errors import ConfigurationError

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int, *, shared: bool) -> None:
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
else:
    import fcntl

    def _lock(descriptor: int, *, shared: bool) -> None:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


class FolderLock:
    """Holds a data folder, made when it is missing, from `acquire` to `release`; a context manager does both.

    Processes that serve one database together may share a folder.
    """

    def __init__(self, folder: Path, *, shared: bool = False) -> None:
        self._folder = folder
        self._shared = shared
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the folder; raises `ConfigurationError` when another process holds it or it cannot be written."""
        if self._descriptor is not None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._folder / "lamella.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"The data folder {self._folder} cannot be used: {error.strerror}.", param=str(self._folder)
            ) from error
        try:
            _lock(descriptor, shared=self._shared)
        except OSError as error:
            os.lseek(descriptor, 0, os.SEEK_SET)
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise ConfigurationError(
                f"Another lamella serves this data folder (pid {holder}).",
                hint="Wait if it is still starting; else end it, or choose another folder with --data.",
                param=str(self._folder),
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the folder go."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> FolderLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
