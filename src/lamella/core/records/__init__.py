"""Rows as the store gives and takes them, by noun."""

from lamella.core.records.beginnings import Beginning, Surroundings
from lamella.core.records.callers import Caller, ItemT, Page, PageQuery
from lamella.core.records.conversations import Conversation, ConversationChange, SystemPrompt, TitledBy, Totals
from lamella.core.records.jobs import Job, JobStatus, NewJob
from lamella.core.records.library import File, FileStatus, FoundDocument, ProjectContent, StoredAgent, StoredProject
from lamella.core.records.notices import Notice, NoticeKind
from lamella.core.records.places import Place
from lamella.core.records.queue import QueuedMessage, QueueStatus
from lamella.core.records.requests import (
    LastBill,
    NewRequest,
    RequestEnd,
    RequestRecord,
    StoredBlock,
    StoredDecision,
    StoredMarker,
    StoredSegment,
)
from lamella.core.records.turns import (
    LEAVE,
    Branch,
    Choices,
    Footing,
    JournalEntry,
    Leave,
    NewRun,
    NewTurn,
    RunEnd,
    RunRecord,
    TurnEnd,
    TurnOnPath,
    TurnRecord,
    UnfinishedTurn,
    first_choice,
)

__all__ = [
    "LEAVE",
    "Beginning",
    "Branch",
    "Caller",
    "Choices",
    "Conversation",
    "ConversationChange",
    "File",
    "FileStatus",
    "Footing",
    "FoundDocument",
    "ItemT",
    "Job",
    "JobStatus",
    "JournalEntry",
    "LastBill",
    "Leave",
    "NewJob",
    "NewRequest",
    "NewRun",
    "NewTurn",
    "Notice",
    "NoticeKind",
    "Page",
    "PageQuery",
    "Place",
    "ProjectContent",
    "QueueStatus",
    "QueuedMessage",
    "RequestEnd",
    "RequestRecord",
    "RunEnd",
    "RunRecord",
    "StoredAgent",
    "StoredBlock",
    "StoredDecision",
    "StoredMarker",
    "StoredProject",
    "StoredSegment",
    "Surroundings",
    "SystemPrompt",
    "TitledBy",
    "Totals",
    "TurnEnd",
    "TurnOnPath",
    "TurnRecord",
    "UnfinishedTurn",
    "first_choice",
]
