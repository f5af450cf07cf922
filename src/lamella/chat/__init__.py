"""A conversation's front door: send, stop, stream. One mailbox per conversation (DESIGN 5). Read `chat.py` first."""

from lamella.chat.chat import CLOSE_SECONDS, Chat
from lamella.chat.mailbox import Arrival, Mailbox
from lamella.chat.message import AT_ONCE, Message, Patience, QueueSettings
from lamella.chat.packets import Queued

__all__ = ["AT_ONCE", "CLOSE_SECONDS", "Arrival", "Chat", "Mailbox", "Message", "Patience", "QueueSettings", "Queued"]
