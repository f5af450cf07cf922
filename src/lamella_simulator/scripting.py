"""Which reply a request gets, and with which fault: named by its header, found by its text, or spoken freely."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lamella_simulator.access import Call, raise_early
from lamella_simulator.answerer.conversation import Conversation
from lamella_simulator.answerer.speaking import speak
from lamella_simulator.replies import Fault, Reply
from lamella_simulator.state import Simulator


@dataclass(frozen=True, slots=True)
class Scripted:
    reply: Reply
    fault: Fault | None

    def suffers(self, kind: str) -> bool:
        return self.fault is not None and self.fault.name == kind


def unspoken(call: Call, simulator: Simulator) -> Scripted:
    """The fault of a request that is answered without words, and the delays of a reply that it names."""
    script = simulator.scripted(call.reply_id)
    fault = simulator.fault(call.reply_id, script)
    raise_early(fault)
    return Scripted(script or Reply(), fault)


def scripted(call: Call, simulator: Simulator, conversation: Callable[[], Conversation]) -> Scripted:
    """The reply and the fault of a request. Raises 400 for a name nobody scripted, and the faults before a byte."""
    name, named_by = call.reply_id, "x-sim-reply"
    if name is None and any(reply.match is not None for reply in simulator.replies.values()):
        name = simulator.matching(conversation().last)
    if name is None:
        name, named_by = simulator.settings.default_reply, "default_reply"
    call.record.reply = name
    script = simulator.scripted(name, named_by)
    fault = simulator.fault(name, script)
    raise_early(fault)
    return Scripted(speak(script, conversation), fault)
