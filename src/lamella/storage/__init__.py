"""Rows in a database, an object per subject, and files in a folder or in S3."""

from lamella.storage.file_store import FileStore, FolderFiles
from lamella.storage.folder import FolderLock
from lamella.storage.store import Store, open_store

__all__ = ["FileStore", "FolderFiles", "FolderLock", "Store", "open_store"]
