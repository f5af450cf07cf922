"""Sessions, background jobs, and messages that wait for their turn."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_USAGE = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")


def upgrade() -> None:
    """Apply this revision."""
    _sessions()
    _first_sessions()
    _labels()
    _jobs()
    _queue()


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("begins_after", sa.String(), nullable=True),
        sa.Column("inherits", sa.Boolean(), nullable=False),
        sa.Column("opened_at", sa.String(), nullable=False),
        sa.Column("opened_by", sa.String(), nullable=False),
        sa.Column("closed_at", sa.String(), nullable=True),
        sa.Column("closed_by", sa.String(), nullable=True),
        sa.Column("why", sa.Text(), server_default="", nullable=False),
        sa.Column("summary", sa.Text(), nullable=True),
        sa.Column("summary_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("embedding", sa.LargeBinary(), nullable=True),
        sa.Column("usage", sa.Text(), server_default="{}", nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_sessions_conversation_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["parent_id"], ["sessions.id"], name=op.f("fk_sessions_parent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_parent_id"), "sessions", ["parent_id"], unique=False)
    op.create_index("uq_sessions_conversation_id_number", "sessions", ["conversation_id", "number"], unique=True)


def _first_sessions() -> None:
    """Every conversation gets session 1, with what its requests have cost so far."""
    connection = op.get_bind()
    spent: dict[str, dict[str, Any]] = {}
    sums = ", ".join(f"COALESCE(SUM({name}_tokens), 0)" for name in _USAGE)
    rows = connection.execute(
        sa.text(
            f"SELECT conversation_id, purpose, {sums} FROM requests WHERE input_tokens IS NOT NULL "
            "GROUP BY conversation_id, purpose ORDER BY conversation_id, purpose"
        )
    )
    for conversation_id, purpose, *figures in rows:
        usage = dict(zip(_USAGE, map(int, figures), strict=True))
        spent.setdefault(conversation_id, {})[purpose] = usage
    sessions = sa.table(
        "sessions",
        *map(sa.column, ("id", "owner", "conversation_id", "number", "opened_at", "opened_by", "usage")),
        sa.column("inherits", sa.Boolean()),
    )
    known = connection.execute(sa.text("SELECT id, owner, created_at FROM conversations ORDER BY id")).all()
    first = [
        {
            "id": f"sess_{conversation_id.removeprefix('conv_')}",
            "owner": owner,
            "conversation_id": conversation_id,
            "number": 1,
            "inherits": False,
            "opened_at": created_at,
            "opened_by": "created",
            "usage": json.dumps(spent.get(conversation_id, {}), separators=(",", ":")),
        }
        for conversation_id, owner, created_at in known
    ]
    if first:
        connection.execute(sa.insert(sessions), first)


def _labels() -> None:
    """Label every conversation and message with its session."""
    op.add_column("conversations", sa.Column("session_id", sa.String(), nullable=True))
    op.execute(
        "UPDATE conversations SET session_id = "
        "(SELECT sessions.id FROM sessions WHERE sessions.conversation_id = conversations.id)"
    )
    op.add_column("messages", sa.Column("session_id", sa.String(), nullable=True))
    op.execute(
        "UPDATE messages SET session_id = (SELECT sessions.id FROM sessions JOIN turns "
        "ON turns.conversation_id = sessions.conversation_id WHERE turns.id = messages.turn_id)"
    )
    # Tables that exist are made anew, so that their statements read as those of a new database.
    with op.batch_alter_table("conversations", recreate="always") as batch_op:
        batch_op.alter_column("session_id", existing_type=sa.String(), nullable=False)
    with op.batch_alter_table("messages", recreate="always") as batch_op:
        # An empty default would come back in brackets.
        batch_op.alter_column("made_after", existing_type=sa.String(), server_default="", existing_nullable=False)
        batch_op.alter_column("reminder", existing_type=sa.Text(), server_default="", existing_nullable=False)
        batch_op.alter_column("session_id", existing_type=sa.String(), nullable=False)
        batch_op.create_foreign_key(
            batch_op.f("fk_messages_session_id"), "sessions", ["session_id"], ["id"], ondelete="CASCADE"
        )
        batch_op.create_index(batch_op.f("ix_messages_session_id"), ["session_id"], unique=False)


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.String(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("ended_at", sa.String(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_kind_status_due_at", "jobs", ["kind", "status", "due_at"], unique=False)
    op.create_index(op.f("ix_jobs_subject"), "jobs", ["subject"], unique=False)
    op.create_index("uq_jobs_owner_kind_subject", "jobs", ["owner", "kind", "subject"], unique=True)


def _queue() -> None:
    op.create_table(
        "queued_messages",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("sender", sa.String(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("sent_at", sa.String(), nullable=False),
        sa.Column("timezone", sa.String(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_queued_messages_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_queued_messages")),
    )
    op.create_index("ix_queued_messages_status", "queued_messages", ["status"], unique=False)
    op.create_index(
        "uq_queued_messages_conversation_id_seq", "queued_messages", ["conversation_id", "seq"], unique=True
    )
