"""Every test: its servers answer at once, unless it sets a debounce itself."""

import os

os.environ["LAMELLA_DEBOUNCE_MS"] = "0"
