"""Rows in a database, an object per subject, and files in a folder."""

from lamella.storage.folder import FileStore, FolderLock
from lamella.storage.store import Store, open_store

__all__ = ["FileStore", "FolderLock", "Store", "open_store"]
