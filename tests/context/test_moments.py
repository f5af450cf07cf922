"""The date and time at the end of a user message, from the stored moment alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from lamella.context.system_prompt import date_line, time_suffix

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "suffix"),
    [
        ("UTC", "[Sent: Sunday 2026-03-01 12:00 +00:00, UTC]"),
        ("Europe/Berlin", "[Sent: Sunday 2026-03-01 13:00 +01:00, Europe/Berlin]"),
        ("America/New_York", "[Sent: Sunday 2026-03-01 07:00 -05:00, America/New_York]"),
        ("America/St_Johns", "[Sent: Sunday 2026-03-01 08:30 -03:30, America/St_Johns]"),
        ("Asia/Kolkata", "[Sent: Sunday 2026-03-01 17:30 +05:30, Asia/Kolkata]"),
        ("Asia/Kathmandu", "[Sent: Sunday 2026-03-01 17:45 +05:45, Asia/Kathmandu]"),
        ("Pacific/Kiritimati", "[Sent: Monday 2026-03-02 02:00 +14:00, Pacific/Kiritimati]"),
        ("Pacific/Pago_Pago", "[Sent: Sunday 2026-03-01 01:00 -11:00, Pacific/Pago_Pago]"),
    ],
)
def test_a_moment_in_the_users_zone(zone: str, suffix: str) -> None:
    local = NOON.astimezone(ZoneInfo(zone))
    assert time_suffix(local, zone) == suffix
    stored = datetime.fromisoformat(local.isoformat())
    assert time_suffix(stored, zone) == suffix


@pytest.mark.parametrize(("seconds", "offset"), [(3_208, "+00:53"), (-17_762, "-04:56"), (-20, "+00:00")])
def test_an_offset_with_seconds_is_shown_to_the_minute(seconds: int, offset: str) -> None:
    """Local mean times of long ago have them."""
    local = NOON.astimezone(timezone(timedelta(seconds=seconds)))
    assert f" {offset}, " in time_suffix(local, "Europe/Berlin")


def test_a_change_to_summer_time_changes_only_what_is_sent_after_it() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    before = datetime(2026, 3, 29, 0, 59, tzinfo=UTC).astimezone(berlin)
    after = datetime(2026, 3, 29, 1, 1, tzinfo=UTC).astimezone(berlin)
    assert time_suffix(before, "Europe/Berlin") == "[Sent: Sunday 2026-03-29 01:59 +01:00, Europe/Berlin]"
    assert time_suffix(after, "Europe/Berlin") == "[Sent: Sunday 2026-03-29 03:01 +02:00, Europe/Berlin]"


def test_a_moment_without_an_offset_is_an_error() -> None:
    with pytest.raises(ValueError, match="offset"):
        time_suffix(datetime(2026, 3, 1, 12), "UTC")


def test_a_system_prompt_can_carry_the_date() -> None:
    assert date_line(NOON) == "The current date is Sunday 2026-03-01, the time 12:00."
