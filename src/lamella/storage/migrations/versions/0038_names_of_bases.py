"""The names in documents, and the terms that owners confirmed and allowed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. Names are found when they are needed first."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("knowledge_bases", recreate="always") as batch_op:
        for name in ("confirmed_terms", "allowed_terms"):
            batch_op.add_column(sa.Column(name, sa.Text(), nullable=False, server_default="[]"))
        for name in ("hint", "summary", "described_from"):  # Alembic writes an empty default that it reads as ('')
            batch_op.alter_column(name, existing_type=sa.Text(), existing_nullable=False, server_default="")
    op.create_table(
        "knowledge_names",
        sa.Column(
            "document_id", sa.String(), sa.ForeignKey("knowledge_documents.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("rules", sa.String(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
    )
