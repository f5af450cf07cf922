"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("layout", sa.String(), nullable=False),
        sa.Column("marker_policy", sa.String(), nullable=False),
        sa.Column("system_prompt", sa.Text(), nullable=False),
        sa.Column("tools", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("updated_at", sa.String(), nullable=False),
        sa.Column("head", sa.String(), nullable=True),
        sa.Column("running_turn", sa.String(), nullable=True),
        sa.Column("next_document", sa.Integer(), server_default="1", nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversations")),
    )
    with op.batch_alter_table("conversations") as batch_op:
        batch_op.create_index("ix_conversations_owner_id", ["owner", "id"], unique=False)

    op.create_table(
        "files",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("media_type", sa.String(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("pages", sa.Integer(), nullable=True),
        sa.Column("code", sa.String(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_files")),
    )
    with op.batch_alter_table("files") as batch_op:
        batch_op.create_index("ix_files_owner_id", ["owner", "id"], unique=False)

    op.create_table(
        "idempotency_keys",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("route", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("result_id", sa.String(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "key", name=op.f("pk_idempotency_keys")),
    )
    with op.batch_alter_table("idempotency_keys") as batch_op:
        batch_op.create_index(batch_op.f("ix_idempotency_keys_result_id"), ["result_id"], unique=False)

    op.create_table(
        "blocks",
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("level", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_blocks_conversation_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("conversation_id", "digest", name=op.f("pk_blocks")),
    )
    op.create_table(
        "decisions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("numbers", sa.Text(), nullable=False),
        sa.Column("first_changed", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_decisions_conversation_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
    )
    with op.batch_alter_table("decisions") as batch_op:
        batch_op.create_index(batch_op.f("ix_decisions_conversation_id"), ["conversation_id"], unique=False)

    op.create_table(
        "file_texts",
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["file_id"], ["files.id"], name=op.f("fk_file_texts_file_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("file_id", name=op.f("pk_file_texts")),
    )
    op.create_table(
        "turns",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("started_at", sa.String(), nullable=False),
        sa.Column("finished_at", sa.String(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cache_read_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cache_write_5m_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cache_write_1h_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("output_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reasoning_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cost", sa.Float(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_turns_conversation_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["parent_id"], ["turns.id"], name=op.f("fk_turns_parent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turns")),
    )
    with op.batch_alter_table("turns") as batch_op:
        batch_op.create_index("ix_turns_conversation_id_id", ["conversation_id", "id"], unique=False)
        batch_op.create_index(batch_op.f("ix_turns_parent_id"), ["parent_id"], unique=False)
        batch_op.create_index(
            "uq_turns_running",
            ["conversation_id"],
            unique=True,
            sqlite_where=sa.text("status = 'running'"),
            postgresql_where=sa.text("status = 'running'"),
        )

    op.create_table(
        "journal",
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_journal_turn_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("turn_id", "first", name=op.f("pk_journal")),
    )
    op.create_table(
        "messages",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("parts", sa.Text(), nullable=False),
        sa.Column("results", sa.Text(), server_default="[]", nullable=False),
        sa.Column("stop_reason", sa.String(), nullable=True),
        sa.Column("made_after", sa.String(), server_default="", nullable=False),
        sa.Column("reminder", sa.Text(), server_default="", nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("sent_at", sa.String(), nullable=True),
        sa.Column("timezone", sa.String(), nullable=True),
        sa.Column("dynamic", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=True),
        sa.Column("cache_read_tokens", sa.Integer(), nullable=True),
        sa.Column("cache_write_5m_tokens", sa.Integer(), nullable=True),
        sa.Column("cache_write_1h_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("reasoning_tokens", sa.Integer(), nullable=True),
        sa.Column("cost", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_messages_turn_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
    )
    with op.batch_alter_table("messages") as batch_op:
        batch_op.create_index("uq_messages_turn_id_seq", ["turn_id", "seq"], unique=True)

    op.create_table(
        "requests",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("purpose", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("layout", sa.String(), nullable=False),
        sa.Column("marker_policy", sa.String(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.Column("letters", sa.Text(), nullable=False),
        sa.Column("base", sa.String(), nullable=True),
        sa.Column("shared", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("segments", sa.Text(), nullable=False),
        sa.Column("zones", sa.Text(), nullable=False),
        sa.Column("markers", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.Column("protocol", sa.String(), nullable=False),
        sa.Column("local_tokens", sa.Integer(), nullable=False),
        sa.Column("estimate", sa.Integer(), nullable=False),
        sa.Column("budget", sa.Integer(), nullable=False),
        sa.Column("predicted_read", sa.Integer(), nullable=False),
        sa.Column("predicted_written", sa.Integer(), nullable=False),
        sa.Column("predicted_hit", sa.Integer(), nullable=True),
        sa.Column("provider_request_id", sa.String(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), nullable=True),
        sa.Column("cache_read_tokens", sa.Integer(), nullable=True),
        sa.Column("cache_write_5m_tokens", sa.Integer(), nullable=True),
        sa.Column("cache_write_1h_tokens", sa.Integer(), nullable=True),
        sa.Column("output_tokens", sa.Integer(), nullable=True),
        sa.Column("reasoning_tokens", sa.Integer(), nullable=True),
        sa.Column("cost", sa.Float(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["base"], ["requests.id"], name=op.f("fk_requests_base")),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_requests_conversation_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_requests_turn_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requests")),
    )
    with op.batch_alter_table("requests") as batch_op:
        batch_op.create_index(batch_op.f("ix_requests_base"), ["base"], unique=False)
        batch_op.create_index("ix_requests_conversation_id_model_at", ["conversation_id", "model", "at"], unique=False)
        batch_op.create_index(batch_op.f("ix_requests_turn_id"), ["turn_id"], unique=False)

    op.create_table(
        "attachments",
        sa.Column("message_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("document", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["file_id"], ["files.id"], name=op.f("fk_attachments_file_id")),
        sa.ForeignKeyConstraint(
            ["message_id"], ["messages.id"], name=op.f("fk_attachments_message_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("message_id", "position", name=op.f("pk_attachments")),
    )
    with op.batch_alter_table("attachments") as batch_op:
        batch_op.create_index(batch_op.f("ix_attachments_file_id"), ["file_id"], unique=False)
