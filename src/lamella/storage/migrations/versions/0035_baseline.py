"""The tables as they were before the first release: later revisions begin here."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0035"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables of the baseline. Only tests come here: a new database gets the tables of this version at once."""
    script = Path(__file__).parents[1] / "baseline.sql"
    for statement in script.read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            op.get_bind().exec_driver_sql(statement)
