"""The tables, one module per subject. Every row has an owner; the rows of a conversation are removed with it.

Portable to PostgreSQL: JSON is text, bytes are bytes. Moments are ISO 8601 text in UTC, of fixed width so that they
sort; only `sent_at` keeps the offset of the sender's zone. `storage.columns` has the types.
"""

from lamella.storage.columns import name_columns
from lamella.storage.tables.access import (
    api_keys,
    deployment,
    grant_changes,
    grants,
    group_members,
    groups,
    knowledge_bases,
    member_changes,
    restricted_told,
    restricted_uses,
    set_ups,
    users,
)
from lamella.storage.tables.conversations import (
    client_answers,
    conversations,
    decisions,
    lines,
    notices,
    queued_messages,
    replacements,
    sessions,
    thread_messages,
)
from lamella.storage.tables.library import (
    agents,
    file_images,
    file_texts,
    files,
    project_files,
    projects,
    system_prompts,
)
from lamella.storage.tables.parts import metadata
from lamella.storage.tables.passages import (
    knowledge_bindings,
    knowledge_calls,
    knowledge_documents,
    knowledge_names,
    knowledge_passages,
    knowledge_shelves,
    knowledge_vectors,
    recall_entries,
    recall_turns,
    recall_vectors,
    recall_versions,
)
from lamella.storage.tables.replicas import held_conversations, process_beats, processes, signals
from lamella.storage.tables.requests import blocks, cache_entries, idempotency_keys, jobs, provider_limits, requests
from lamella.storage.tables.turns import (
    attachments,
    document_numbers,
    found_documents,
    journal,
    messages,
    pinned,
    responses,
    runs,
    turns,
)

for _table in metadata.tables.values():
    name_columns(_table)

__all__ = [
    "agents",
    "api_keys",
    "attachments",
    "blocks",
    "cache_entries",
    "client_answers",
    "conversations",
    "decisions",
    "deployment",
    "document_numbers",
    "file_images",
    "file_texts",
    "files",
    "found_documents",
    "grant_changes",
    "grants",
    "group_members",
    "groups",
    "held_conversations",
    "idempotency_keys",
    "jobs",
    "journal",
    "knowledge_bases",
    "knowledge_bindings",
    "knowledge_calls",
    "knowledge_documents",
    "knowledge_names",
    "knowledge_passages",
    "knowledge_shelves",
    "knowledge_vectors",
    "lines",
    "member_changes",
    "messages",
    "metadata",
    "notices",
    "pinned",
    "process_beats",
    "processes",
    "project_files",
    "projects",
    "provider_limits",
    "queued_messages",
    "recall_entries",
    "recall_turns",
    "recall_vectors",
    "recall_versions",
    "replacements",
    "requests",
    "responses",
    "restricted_told",
    "restricted_uses",
    "runs",
    "sessions",
    "set_ups",
    "signals",
    "system_prompts",
    "thread_messages",
    "turns",
    "users",
]
