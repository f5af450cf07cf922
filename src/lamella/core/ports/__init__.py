"""The ports between the layers; every implementation lives at an edge."""

from lamella.core.ports.chat_model import ChatModel, ModelSource, OpenModel
from lamella.core.ports.conversations import ConversationStore
from lamella.core.ports.file_store import FileStore
from lamella.core.ports.files import FileRows
from lamella.core.ports.jobs import Jobs
from lamella.core.ports.library import LibraryStore
from lamella.core.ports.queue import QueueStore
from lamella.core.ports.recall import Embedder, RecallIndex
from lamella.core.ports.requests import RequestStore
from lamella.core.ports.store import Store
from lamella.core.ports.stream_bus import Batch, Stop, StreamBus
from lamella.core.ports.turns import TurnStore

__all__ = [
    "Batch",
    "ChatModel",
    "ConversationStore",
    "Embedder",
    "FileRows",
    "FileStore",
    "Jobs",
    "LibraryStore",
    "ModelSource",
    "OpenModel",
    "QueueStore",
    "RecallIndex",
    "RequestStore",
    "Stop",
    "Store",
    "StreamBus",
    "TurnStore",
]
