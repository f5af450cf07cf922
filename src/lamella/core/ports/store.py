"""The store: rows of every kind behind one port."""

from __future__ import annotations

from typing import Protocol

from lamella.core.ports.conversations import ConversationStore
from lamella.core.ports.files import FileRows
from lamella.core.ports.library import LibraryStore
from lamella.core.ports.queue import QueueStore
from lamella.core.ports.requests import RequestStore
from lamella.core.ports.turns import TurnStore


class Store(ConversationStore, LibraryStore, FileRows, TurnStore, QueueStore, RequestStore, Protocol):
    """Rows (`storage/`). Raises `NotFound` for ids that do not exist or are somebody else's, `StoreFailed` on failure.

    Every verb is one transaction. No verb waits for anything but the database.
    """
