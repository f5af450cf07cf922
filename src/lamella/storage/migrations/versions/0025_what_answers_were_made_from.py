"""Of which knowledge bases something stood in the window that an answer or a summary was made from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision. Of what is there already nobody knows it."""
    # The tables are made anew, so that their statements read as those of a new database. An empty default would come
    # back in brackets.
    with op.batch_alter_table("messages", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("made_from", sa.Text(), nullable=False, server_default="[]"))
        batch_op.alter_column("made_after", existing_type=sa.String(), server_default="", existing_nullable=False)
        batch_op.alter_column("reminder", existing_type=sa.Text(), server_default="", existing_nullable=False)
    with op.batch_alter_table("sessions", recreate="always") as batch_op:
        batch_op.add_column(sa.Column("made_from", sa.Text(), nullable=False, server_default="[]"))
        batch_op.alter_column("why", existing_type=sa.Text(), server_default="", existing_nullable=False)
