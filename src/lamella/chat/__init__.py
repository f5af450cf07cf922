"""Conversations: send, stop, follow. Read `send.py` first."""

from lamella.chat.chat import CLOSE_SECONDS, Chat
from lamella.chat.mailbox import IncomingMessage, Mailbox
from lamella.chat.message import AT_ONCE, Message, OutgoingMessage, WaitPolicy
from lamella.chat.packets import Queued

__all__ = [
    "AT_ONCE",
    "CLOSE_SECONDS",
    "Chat",
    "IncomingMessage",
    "Mailbox",
    "Message",
    "OutgoingMessage",
    "Queued",
    "WaitPolicy",
]
