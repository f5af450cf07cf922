"""Tools, the MCP servers that bring some, and the documents that they brought into conversations."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from lamella.core.access import Role, Scope
from lamella.core.json import decode_object
from lamella.core.messages import Attachment
from lamella.core.prompt import ToolSpec
from lamella.server.asked import PREFIX, TheApp, TheCaller, TheIdentity
from lamella.server.schemas import Json, conversation_json, whole_list_json
from lamella.tooling.tool import Verdict
from lamella.tools.mcp.config import ServerConfig
from lamella.tools.mcp.connection import ServerState
from lamella.turns.effective_settings import difference


class ApprovalBody(BaseModel):
    """What the user says to a call; the reason is told to the model."""

    approved: bool
    reason: str = Field("", max_length=2_000)


router = APIRouter(prefix=PREFIX)


@router.get("/tools")
async def tools(app: TheApp, caller: TheCaller) -> Json:
    """The tools that new conversations begin with."""
    return whole_list_json([_tool(spec) for spec in app.registry.specs()], "name")


@router.get("/mcp-servers")
async def mcp_servers(app: TheApp, identity: TheIdentity) -> Json:
    """The MCP servers, how they are, and why a tool of theirs is not offered.

    What they print, and why they are down, may hold passwords and addresses: `stderr` and `error` are for admins, with
    a key that may manage; null for others.
    """
    trusted = identity.role is Role.ADMIN and Scope.MANAGE in identity.scopes
    shown = [_server(config, state, trusted=trusted) for config, state in app.mcp.states().values()]
    return whole_list_json(shown, "name")


@router.get("/conversations/{conversation_id}/tools")
async def conversation_tools(conversation_id: str, app: TheApp, caller: TheCaller) -> Json:
    """The tools that a conversation has; `news` says what of them a refresh would change."""
    pinned = (await app.store.conversation(caller, conversation_id)).tools
    news = difference(pinned, app.registry.specs())
    return whole_list_json([_tool(spec) for spec in pinned], "name") | {"news": news}


@router.post("/conversations/{conversation_id}/tools/refresh")
async def refresh_tools(conversation_id: str, app: TheApp, caller: TheCaller) -> Json:
    """Give a conversation the tools that there are now; what is cached of it is read no more where they differ."""
    return conversation_json(await app.conversations.refresh_tools(caller, conversation_id))


@router.post("/turns/{turn_id}/calls/{call_id}/approval")
async def approve(turn_id: str, call_id: str, body: ApprovalBody, app: TheApp, caller: TheCaller) -> Json:
    """Approve or deny a call that waits for the user."""
    await app.chat.approve(caller, turn_id, call_id, Verdict(body.approved, body.reason))
    return {"object": "approval", "call_id": call_id, "approved": body.approved}


@router.get("/documents/{document_id}")
async def document(document_id: str, app: TheApp, caller: TheCaller) -> Json:
    """A document that a tool brought into a conversation, with its text."""
    return _document(await app.store.document(caller, document_id))


def _tool(spec: ToolSpec) -> Json:
    return {
        "name": spec.name,
        "object": "tool",
        "description": spec.description,
        "input_schema": decode_object(spec.input_schema),
    }


def _server(config: ServerConfig, state: ServerState, *, trusted: bool) -> Json:
    return {
        "name": config.name,
        "object": "mcp_server",
        "transport": config.transport,
        "status": state.status,
        "error": (state.error or None) if trusted else None,
        "tools": [tool.spec.name for tool in state.listing.tools],
        "left_out": [{"name": name, "reason": reason} for name, reason in state.listing.left_out],
        "connected": state.connected,
        "stderr": state.stderr if trusted else None,
    }


def _document(found: Attachment) -> Json:
    return {
        "id": found.file_id,
        "object": "document",
        "document": found.document,
        "title": found.title,
        "url": found.url,
        "media_type": found.media_type,
        "size": found.size,
        "tokens": found.tokens,
        "text": found.text,
    }
