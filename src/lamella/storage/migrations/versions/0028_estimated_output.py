"""Of which usage the output alone is an estimate: the provider had told its input when the answer was stopped."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. Until now a usage was estimated whole or not at all."""
    # The tables are made anew, so that their statements read as those of a new database.
    for table in ("turns", "runs"):
        with op.batch_alter_table(table, recreate="always") as batch_op:
            batch_op.add_column(
                sa.Column("input_estimated", sa.Boolean(), server_default=sa.text("0"), nullable=False),
                insert_after="usage_estimated",
            )
    with op.batch_alter_table("messages", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("input_estimated", sa.Boolean(), nullable=True), insert_after="usage_estimated")
        # An empty default would come back in brackets.
        batch_op.alter_column("made_after", existing_type=sa.String(), server_default="", existing_nullable=False)
        batch_op.alter_column("reminder", existing_type=sa.Text(), server_default="", existing_nullable=False)
    with op.batch_alter_table("requests", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("input_estimated", sa.Boolean(), nullable=True), insert_after="usage_estimated")
    for table in ("turns", "runs", "messages", "requests"):
        op.execute(f"UPDATE {table} SET input_estimated = usage_estimated")
