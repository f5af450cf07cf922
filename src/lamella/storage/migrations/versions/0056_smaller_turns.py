"""Fewer and smaller indexes of turns; on SQLite three tables without keys of their own beside them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None
contracts = "two indexes of recalled messages are replaced: an older process is slower without them"


def upgrade() -> None:
    """Apply this revision."""
    op.create_index("ix_recall_entries_conversation_id_id", "recall_entries", ["conversation_id", "id"])
    calls = sa.text("call_id <> ''")
    op.create_index(
        "ix_recall_entries_call_id", "recall_entries", ["call_id"], sqlite_where=calls, postgresql_where=calls
    )
    op.drop_index("ix_recall_entries_owner_conversation_id_id", "recall_entries")
    op.drop_index("ix_recall_entries_conversation_id_call_id", "recall_entries")
    if op.get_bind().dialect.name != "sqlite":
        return
    for table in ("blocks", "recall_turns"):
        with op.batch_alter_table(table, recreate="always", table_kwargs={"sqlite_with_rowid": False}):
            pass
    for table in ("recall_vectors", "knowledge_vectors"):
        with op.batch_alter_table(table, recreate="always") as batch_op:
            batch_op.alter_column("entry_id", type_=sa.Integer(), existing_type=sa.BigInteger())
