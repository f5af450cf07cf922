"""What a knowledge base is about: a hint for restricted readers, a summary and topics, and whose words they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

COLUMNS = (("hint", ""), ("summary", ""), ("topics", "[]"), ("described_by", "nobody"), ("described_from", ""))


def upgrade() -> None:
    """Apply this revision. Bases that are there say nothing yet."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("knowledge_bases", recreate="always") as batch_op:
        for name, value in COLUMNS:
            batch_op.add_column(sa.Column(name, sa.Text(), nullable=False, server_default=value))
