"""Documents that are searched: their passages, words and vectors."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_WORDS = (
    "CREATE VIRTUAL TABLE knowledge_words USING fts5(terms, tokenize = 'ascii')",
    "CREATE VIRTUAL TABLE knowledge_postings USING fts5vocab('knowledge_words', 'instance')",
    "CREATE TRIGGER knowledge_words_forget AFTER DELETE ON knowledge_passages "
    "BEGIN DELETE FROM knowledge_words WHERE rowid = old.id; END",
)


def upgrade() -> None:
    """Apply this revision. Files that projects hold already are indexed by the next start."""
    op.create_table(
        "knowledge_shelves",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_knowledge_shelves")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("knowledge_shelves") as batch_op:
        batch_op.create_index("uq_knowledge_shelves_owner_name", ["owner", "name"], unique=True)
    op.create_table(
        "knowledge_documents",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("shelf", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("media_type", sa.String(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("upload", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("code", sa.String(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("pages", sa.Integer(), nullable=True),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("found", sa.Integer(), nullable=True),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("passages", sa.Integer(), nullable=False),
        sa.Column("embedded", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(), nullable=True),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.Column("updated_at", sa.String(), nullable=False),
        sa.Column("removed", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["shelf"], ["knowledge_shelves.number"], name=op.f("fk_knowledge_documents_shelf"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_knowledge_documents")),
    )
    with op.batch_alter_table("knowledge_documents") as batch_op:
        batch_op.create_index("ix_knowledge_documents_shelf_id", ["shelf", "id"])
        batch_op.create_index("ix_knowledge_documents_state", ["state"])
    op.create_table(
        "knowledge_passages",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("document_id", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("end", sa.Integer(), nullable=False),
        sa.Column("page", sa.Integer(), nullable=True),
        sa.Column("headings", sa.Text(), nullable=False),
        sa.Column("length", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"],
            ["knowledge_documents.id"],
            name=op.f("fk_knowledge_passages_document_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_knowledge_passages")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("knowledge_passages") as batch_op:
        batch_op.create_index(
            "uq_knowledge_passages_document_id_version_position", ["document_id", "version", "position"], unique=True
        )
    op.create_table(
        "knowledge_vectors",
        sa.Column("entry_id", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["entry_id"], ["knowledge_passages.id"], name=op.f("fk_knowledge_vectors_entry_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("entry_id", name=op.f("pk_knowledge_vectors")),
    )
    with op.batch_alter_table("knowledge_vectors") as batch_op:
        batch_op.create_index("ix_knowledge_vectors_owner_model_dimension", ["owner", "model", "dimension"])
    if op.get_bind().dialect.name == "sqlite":
        for statement in _WORDS:
            op.execute(statement)
