"""The tables of agents, projects, system prompts and files."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, LargeBinary, String, Table, Text

from lamella.storage.columns import Json, UtcMoment
from lamella.storage.tables.parts import metadata, owner, row_id

agents = Table(
    "agents",
    metadata,
    row_id(),
    owner(),
    Column("name", Text, nullable=False),
    Column("prompt", Text, nullable=False),
    Column("reminder", Text, nullable=False),
    Column("replaces_system", Boolean, nullable=False),
    Column("tools", Json(tuple[str, ...])),
    Column("model", String),
    Column("layout", String),
    Column("thinking_effort", String),
    Column("fallback_model", String),
    Column("revision", Integer, nullable=False),
    Column("created_at", UtcMoment, nullable=False),
    Column("updated_at", UtcMoment, nullable=False),
    Index("ix_agents_owner_id", "owner", "id"),
)
"""`tools` is the JSON list of the names of the tools that it may use, null for all."""

projects = Table(
    "projects",
    metadata,
    row_id(),
    owner(),
    Column("name", Text, nullable=False),
    Column("instructions", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("created_at", UtcMoment, nullable=False),
    Column("updated_at", UtcMoment, nullable=False),
    Index("ix_projects_owner_id", "owner", "id"),
)

system_prompts = Table(
    "system_prompts",
    metadata,
    Column("owner", String, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("created_at", UtcMoment, nullable=False),
)
"""The versions that an owner wrote, from 1. Version 0 is the one that ships and is not stored."""

files = Table(
    "files",
    metadata,
    row_id(),
    owner(),
    Column("name", Text, nullable=False),
    Column("media_type", String, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("status", String, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("created_at", UtcMoment, nullable=False),
    Column("pages", Integer),
    Column("code", String),
    Column("reason", Text),
    Column("width", Integer),
    Column("height", Integer),
    Column("purpose", String, nullable=False, server_default="user_data"),
    Index("ix_files_owner_id", "owner", "id"),
)
"""`width` and `height` are the size of a picture in pixels. `purpose` is OpenAI's word for what a file is for."""

file_texts = Table(
    "file_texts",
    metadata,
    Column("file_id", String, ForeignKey("files.id", ondelete="CASCADE"), primary_key=True),
    owner(),
    Column("data", LargeBinary, nullable=False),
)
"""UTF-8, as bytes: extracted text may hold characters that a text column of PostgreSQL refuses."""

file_images = Table(
    "file_images",
    metadata,
    Column("file_id", String, ForeignKey("files.id", ondelete="CASCADE"), primary_key=True),
    owner(),
    Column("media_type", String, nullable=False),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("digest", String, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
"""Pictures as models get them; `digest` is the fingerprint of `data`."""

project_files = Table(
    "project_files",
    metadata,
    Column("project_id", String, ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True),
    Column("file_id", String, ForeignKey("files.id"), primary_key=True, index=True),
    owner(),
    Column("position", Integer, nullable=False),
)
