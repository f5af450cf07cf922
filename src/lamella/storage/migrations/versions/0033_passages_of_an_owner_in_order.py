"""The passages of an owner in the order of their ids: a search over all conversations reads them page by page."""

from __future__ import annotations

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_index("ix_recall_entries_owner_id", "recall_entries", ["owner", "id"])
