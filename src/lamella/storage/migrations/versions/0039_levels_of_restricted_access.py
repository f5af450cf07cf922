"""How much restricted readers get of a base."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("knowledge_bases", recreate="always") as batch_op:
        for name, default in (("restricted_level", "summary"), ("contact", ""), ("form", "[]")):
            batch_op.add_column(sa.Column(name, sa.Text(), nullable=False, server_default=default))
        for name in ("hint", "summary", "described_from"):  # Alembic writes an empty default that it reads as ('')
            batch_op.alter_column(name, existing_type=sa.Text(), existing_nullable=False, server_default="")
