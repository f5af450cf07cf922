"""Long results: the model sees the beginning, the whole is kept as a document that `read_file` reads on in."""

from __future__ import annotations

from dataclasses import replace

import structlog

from lamella.core.errors import LamellaError
from lamella.core.messages import ToolResult
from lamella.core.records import FoundDocument
from lamella.tools.tool import ToolScope

log = structlog.get_logger()

MAX_SHOWN = 120_000
"""Characters of a result that the model sees at most."""

MAX_KEPT = 2_000_000
"""Characters that are kept of one result; nobody reads on further."""

_NOTICE = 400
"""Characters of `MAX_SHOWN` that are left for saying what is missing."""


async def keep_rest(result: ToolResult, scope: ToolScope) -> ToolResult:
    """The result, cut where it is too long for one reading, with a first line that says how to read on."""
    content = result.content
    if len(content) <= MAX_SHOWN:
        return result
    shown = content[: MAX_SHOWN - _NOTICE]
    size = f"The first {len(shown)} of {len(content)} characters are shown"
    how = await _keep(result, scope)
    return replace(result, content=f"[{size}. {how}]\n{shown}")


async def _keep(result: ToolResult, scope: ToolScope) -> str:
    if scope.documents is None:
        return "Call the tool again for less to see the rest."
    content = result.content[:MAX_KEPT]
    found = FoundDocument(f"Result of {result.name}", "text/plain", content, len(result.content.encode()))
    try:
        document = await scope.documents.keep(found)
    except LamellaError as error:
        log.warning("the rest of a tool's result is not kept", call_id=result.call_id, error=error.message)
        return "The rest could not be kept: call the tool again for less to see it."
    lost = "" if len(content) == len(result.content) else f", of which the first {len(content)} are kept"
    return (
        f"The whole is document {document.document}{lost}: read on with read_file, file_id {document.file_id}, "
        "by offset or query."
    )
