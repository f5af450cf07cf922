"""The model that answers in an agent's place of one that fails."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    # The table is made anew, so that its statement reads as that of a new database.
    with op.batch_alter_table("agents", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("fallback_model", sa.String(), nullable=True), insert_after="thinking_effort")
