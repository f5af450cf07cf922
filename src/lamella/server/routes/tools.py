"""Tools, the MCP servers that bring some, and the documents that they brought into conversations."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from lamella.core.access import Role, Scope
from lamella.core.json import decode_object
from lamella.core.messages import Attachment
from lamella.core.prompt import ToolSpec
from lamella.server.objects import AnyObject, ListObject, Object, whole_list
from lamella.server.routes.conversations import ConversationObject, conversation_object
from lamella.server.routing import TheApp, TheCaller, TheIdentity, api_router
from lamella.tooling.tool import Verdict
from lamella.tools.mcp.config import ServerConfig
from lamella.tools.mcp.connection import ServerState, Status
from lamella.turns.effective_settings import difference

router = api_router()


class ApprovalBody(BaseModel):
    """The user's decision on a call. The model sees the reason."""

    approved: bool
    reason: str = Field("", max_length=2_000)


class ToolObject(Object, kw_only=True):
    """A tool; `input_schema` is the JSON Schema of its arguments."""

    name: str
    object: Literal["tool"] = "tool"
    description: str
    input_schema: AnyObject


class PinnedToolsObject(ListObject[ToolObject], kw_only=True):
    """The tools of a conversation. `changes` describes what a refresh would change."""

    changes: str


class LeftOutToolObject(Object, kw_only=True):
    """A tool of a server that is not offered, and why."""

    name: str
    reason: str


class McpServerObject(Object, kw_only=True):
    """An MCP server and its state. `tools` are offered, `left_out` are not; `connected` counts its connections.

    `error` says why it is down, and `stderr` is the end of its error output: both only for admins, null for others.
    """

    name: str
    object: Literal["mcp_server"] = "mcp_server"
    transport: Literal["stdio", "http"]
    status: Status
    error: str | None
    tools: list[str]
    left_out: list[LeftOutToolObject]
    connected: int
    stderr: str | None


class ApprovalObject(Object, kw_only=True):
    """The decision on a call."""

    object: Literal["approval"] = "approval"
    call_id: str
    approved: bool


class FoundDocumentObject(Object, kw_only=True):
    """A document that a tool brought into a conversation, with its number there. `size` is in bytes, as fetched."""

    id: str
    object: Literal["document"] = "document"
    document: int
    title: str
    url: str | None
    media_type: str
    size: int
    tokens: int
    text: str | None


def tool_object(spec: ToolSpec) -> ToolObject:
    """A tool."""
    return ToolObject.of(spec, input_schema=decode_object(spec.input_schema))


def server_object(config: ServerConfig, state: ServerState, *, trusted: bool) -> McpServerObject:
    """An MCP server. Its output is only for `trusted` callers."""
    return McpServerObject.of(
        state,
        name=config.name,
        transport=config.transport,
        error=(state.error or None) if trusted else None,
        tools=[tool.spec.name for tool in state.listing.tools],
        left_out=[LeftOutToolObject(name=name, reason=reason) for name, reason in state.listing.left_out],
        stderr=state.stderr if trusted else None,
    )


def found_document_object(document: Attachment) -> FoundDocumentObject:
    """A document that a tool brought into a conversation."""
    return FoundDocumentObject.of(document, id=document.file_id)


@router.get("/tools")
async def tools(app: TheApp, caller: TheCaller) -> ListObject[ToolObject]:
    """The tools that new conversations begin with."""
    return whole_list([tool_object(spec) for spec in app.registry.specs()], "name")


@router.get("/mcp-servers")
async def mcp_servers(app: TheApp, identity: TheIdentity) -> ListObject[McpServerObject]:
    """The MCP servers, their state, and why tools of theirs are left out.

    Their output and errors may hold passwords and addresses: `stderr` and `error` are only for admins with a key that
    may manage; null for others.
    """
    trusted = identity.role is Role.ADMIN and Scope.MANAGE in identity.scopes
    shown = [server_object(config, state, trusted=trusted) for config, state in app.mcp.states().values()]
    return whole_list(shown, "name")


@router.get("/conversations/{conversation_id}/tools")
async def conversation_tools(conversation_id: str, app: TheApp, caller: TheCaller) -> PinnedToolsObject:
    """The tools of a conversation. `changes` describes what a refresh would change."""
    pinned = (await app.store.conversations.conversation(caller, conversation_id)).tools
    changes = difference(pinned, app.registry.specs())
    return PinnedToolsObject.of(whole_list([tool_object(spec) for spec in pinned], "name"), changes=changes)


@router.post("/conversations/{conversation_id}/tools/refresh")
async def refresh_tools(conversation_id: str, app: TheApp, caller: TheCaller) -> ConversationObject:
    """Give a conversation the current tools. If they differ, its cache is lost."""
    return conversation_object(await app.conversations.refresh_tools(caller, conversation_id))


@router.post("/turns/{turn_id}/calls/{call_id}/approval")
async def approve(turn_id: str, call_id: str, body: ApprovalBody, app: TheApp, caller: TheCaller) -> ApprovalObject:
    """Approve or deny a call that waits for the user."""
    await app.chat.approve(caller, turn_id, call_id, Verdict(body.approved, body.reason))
    return ApprovalObject(call_id=call_id, approved=body.approved)


@router.get("/documents/{document_id}")
async def document(document_id: str, app: TheApp, caller: TheCaller) -> FoundDocumentObject:
    """A document that a tool brought into a conversation, with its text."""
    return found_document_object(await app.store.documents.document(caller, document_id))
