"""Which usage is an estimate, where a provider did not say it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. What is stored was measured."""
    # The tables are made anew, so that their statements read as those of a new database.
    for table in ("turns", "runs"):
        with op.batch_alter_table(table, recreate="always") as batch_op:
            batch_op.add_column(
                sa.Column("usage_estimated", sa.Boolean(), server_default=sa.text("0"), nullable=False),
                insert_after="reasoning_tokens",
            )
    with op.batch_alter_table("messages", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("usage_estimated", sa.Boolean(), nullable=True), insert_after="reasoning_tokens")
        # An empty default would come back in brackets.
        batch_op.alter_column("made_after", existing_type=sa.String(), server_default="", existing_nullable=False)
        batch_op.alter_column("reminder", existing_type=sa.Text(), server_default="", existing_nullable=False)
    with op.batch_alter_table("requests", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("usage_estimated", sa.Boolean(), nullable=True), insert_after="reasoning_tokens")
