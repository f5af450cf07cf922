"""Keywords of a knowledge base, for restricted readers of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("knowledge_bases", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("keywords", sa.Text(), nullable=False, server_default="[]"))
        # An empty default would come back in brackets.
        for name in ("hint", "summary", "described_from"):
            batch_op.alter_column(name, existing_type=sa.Text(), server_default="", existing_nullable=False)
