"""The thinking effort of agents, conversations and requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The tables are made anew, so that their statements read as those of a new database.
    with op.batch_alter_table("agents", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("thinking_effort", sa.String(), nullable=True), insert_after="layout")
    with op.batch_alter_table("conversations", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("thinking_effort", sa.String(), nullable=True), insert_after="session_id")
    with op.batch_alter_table("requests", recreate="always") as batch_op:
        batch_op.add_column(
            sa.Column("thinking_effort", sa.String(), server_default="off", nullable=False),
            insert_after="marker_policy",
        )
