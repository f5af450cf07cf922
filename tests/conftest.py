"""Every test: its servers answer at once and ask for no titles, unless it sets that itself."""

import os

os.environ["LAMELLA_DEBOUNCE_MS"] = "0"
os.environ["LAMELLA_TITLES"] = "false"
os.environ["LAMELLA_KNOWLEDGE_SUMMARIES"] = "false"
