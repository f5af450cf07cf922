"""The date and time that a user message ends with (SPEC W3), from its stored moment and offset alone."""

from __future__ import annotations

from datetime import datetime

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def time_suffix(sent_at: datetime, timezone: str) -> str:
    """`[Sent: Sunday 2026-03-01 09:00 +01:00, Europe/Berlin]`; raises ValueError for a moment without offset.

    The offset was stored with the message, so no zone database is asked and the bytes never change.
    """
    offset = sent_at.utcoffset()
    if offset is None:
        raise ValueError("sent_at needs an offset")
    text = sent_at.isoformat(" ", "minutes")
    moment, shift = text[:16], text[16:]
    if len(shift) > len("+01:00"):  # an offset with seconds, from before there were time zones
        minutes = round(offset.total_seconds() / 60)
        hours, rest = divmod(abs(minutes), 60)
        shift = f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"
    return f"[Sent: {_WEEKDAYS[sent_at.weekday()]} {moment} {shift}, {timezone}]"


def date_line(sent_at: datetime) -> str:
    """`The current date is Sunday 2026-03-01, the time 09:00.`, for system prompts that carry it."""
    day = f"{_WEEKDAYS[sent_at.weekday()]} {sent_at.year:04d}-{sent_at.month:02d}-{sent_at.day:02d}"
    return f"The current date is {day}, the time {sent_at.hour:02d}:{sent_at.minute:02d}."
