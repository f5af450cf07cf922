"""One document number for a file in a conversation, however often it is used there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_PROJECTS = """
    INSERT INTO document_numbers (conversation_id, file_id, owner, document, uses, project_use)
    SELECT conversation_id, file_id, owner, document, 1, 0 FROM project_documents
"""
_ATTACHED = """
    INSERT INTO document_numbers (conversation_id, file_id, owner, document, uses)
    SELECT turns.conversation_id, attachments.file_id, attachments.owner, MAX(attachments.document), 1
    FROM attachments
    JOIN messages ON messages.id = attachments.message_id
    JOIN turns ON turns.id = messages.turn_id
    LEFT JOIN project_documents ON project_documents.conversation_id = turns.conversation_id
        AND project_documents.file_id = attachments.file_id
    WHERE project_documents.file_id IS NULL
    GROUP BY turns.conversation_id, attachments.file_id, attachments.owner
"""


def upgrade() -> None:
    """Apply this revision. What was numbered before keeps its number, also a file that has several."""
    op.create_table(
        "document_numbers",
        sa.Column("conversation_id", sa.String(), nullable=False),
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("document", sa.Integer(), nullable=False),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("project_use", sa.Integer()),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_document_numbers_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["file_id"], ["files.id"], name=op.f("fk_document_numbers_file_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("conversation_id", "file_id", name=op.f("pk_document_numbers")),
    )
    op.create_index(op.f("ix_document_numbers_file_id"), "document_numbers", ["file_id"], unique=False)
    op.execute(_PROJECTS)
    op.execute(_ATTACHED)
    op.drop_table("project_documents")
    with op.batch_alter_table("attachments", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("use", sa.Integer(), server_default="0", nullable=False))
