"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}
# Processes of the version before go on meanwhile, so on PostgreSQL a revision only adds tables, columns and indexes. One
# that does more says what, and what becomes of them: contracts = "…". It also says so in CHANGELOG.md.


def upgrade() -> None:
    """Apply this revision."""
    ${upgrades if upgrades else "pass"}
