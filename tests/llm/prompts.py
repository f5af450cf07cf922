"""Prompts put together by hand, so that a test says exactly what stands in the window."""

from __future__ import annotations

from base64 import b64encode

from lamella.core.json import digest
from lamella.core.messages import Image, Part
from lamella.core.prompt import Kind, Lifetime, Prompt, PromptMessage, Role, Sampling, Segment, ToolSpec, Zone

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
)
"""A PNG of one pixel."""
PICTURE = Image("file_1", "image/png", 1, 1, digest(PIXEL), PIXEL)
ENCODED = b64encode(PIXEL).decode()


def segment(id: str, role: Role, *parts: Part, zone: Zone = Zone.TURN, tools: tuple[ToolSpec, ...] = ()) -> Segment:
    """A segment of one message, or of tools."""
    return Segment(
        id=id,
        kind=Kind.USER,
        zone=zone,
        lifetime=Lifetime.SESSION,
        source=id,
        owner="user",
        label=id,
        letters="U",
        tokens=1,
        digest=id,
        messages=(PromptMessage(role, parts),) if parts else (),
        tools=tools,
    )


def prompt(model: str, *segments: Segment, sampling: Sampling | None = None) -> Prompt:
    """A prompt of these segments."""
    return Prompt(model, segments, sampling or Sampling(4_000))
