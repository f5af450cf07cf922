"""Rows in a database, an object per subject, and files in a folder."""

from lamella.storage.folder import FolderFileStore, FolderLock
from lamella.storage.store import Store, open_store

__all__ = ["FolderFileStore", "FolderLock", "Store", "open_store"]
