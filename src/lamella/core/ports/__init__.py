"""The ports between the layers; every implementation lives at an edge."""

from lamella.core.ports.chat_model import ChatModel, ModelSource, OpenModel
from lamella.core.ports.file_store import FileStore
from lamella.core.ports.jobs import Jobs
from lamella.core.ports.recall import Embedder
from lamella.core.ports.stream_bus import Batch, Stop, StreamBus

__all__ = [
    "Batch",
    "ChatModel",
    "Embedder",
    "FileStore",
    "Jobs",
    "ModelSource",
    "OpenModel",
    "Stop",
    "StreamBus",
]
