"""Rows in a database and files in a folder: the ports `Store`, `Jobs` and `FileStore` (DESIGN 4)."""

from lamella.storage.folder import FolderFileStore, FolderLock
from lamella.storage.store import Store, open_store

__all__ = ["FolderFileStore", "FolderLock", "Store", "open_store"]
