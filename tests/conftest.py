"""Every test: its servers answer at once and ask for no titles, unless it sets that itself."""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

os.environ["LAMELLA_DEBOUNCE_MS"] = "0"
os.environ["LAMELLA_TITLES"] = "false"
os.environ["LAMELLA_KNOWLEDGE_SUMMARIES"] = "false"

# How long an example takes tells how busy the machine is.
settings.register_profile("lamella", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("lamella"), max_examples=50)
settings.load_profile("lamella")


def pytest_configure(config: pytest.Config) -> None:
    """Without the long suites, half as many generated examples are tried: `./check --all` tries all."""
    if config.option.markexpr == "not long":
        settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """Thousands of collected tests and the vendors' SDKs stay for the whole run. The garbage collector need not walk
    them again and again: that took a fifth of the tests' time."""
    gc.collect()
    gc.freeze()
