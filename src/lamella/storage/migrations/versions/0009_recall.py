"""Passages that can be found again, with their words and vectors."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_WORDS = (
    "CREATE VIRTUAL TABLE recall_words USING fts5(terms, tokenize = 'ascii')",
    "CREATE VIRTUAL TABLE recall_postings USING fts5vocab('recall_words', 'instance')",
    "CREATE TRIGGER recall_words_forget AFTER DELETE ON recall_entries "
    "BEGIN DELETE FROM recall_words WHERE rowid = old.id; END",
)


def upgrade() -> None:
    """Apply this revision. What is stored already is indexed by the next start."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("sessions", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("embedding_model", sa.String(), nullable=True), insert_after="embedding")
        # Reflection puts an empty default into brackets.
        batch_op.alter_column("why", existing_type=sa.Text(), existing_nullable=False, server_default="")
    op.create_table(
        "recall_entries",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("speaker", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("at", sa.String(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("end", sa.Integer(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_recall_entries_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_recall_entries")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("recall_entries") as batch_op:
        batch_op.create_index(
            "uq_recall_entries_source_id_call_id_start", ["source_id", "call_id", "start"], unique=True
        )
        batch_op.create_index("ix_recall_entries_owner_conversation_id_id", ["owner", "conversation_id", "id"])
        batch_op.create_index("ix_recall_entries_conversation_id_call_id", ["conversation_id", "call_id"])
    op.create_table(
        "recall_vectors",
        sa.Column("entry_id", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["entry_id"], ["recall_entries.id"], name=op.f("fk_recall_vectors_entry_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("entry_id", name=op.f("pk_recall_vectors")),
    )
    op.create_table(
        "recall_turns",
        sa.Column("turn_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_recall_turns_turn_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_recall_turns")),
    )
    op.create_table(
        "recall_versions",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_recall_versions")),
    )
    if op.get_bind().dialect.name == "sqlite":
        for statement in _WORDS:
            op.execute(statement)
