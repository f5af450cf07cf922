"""One request on its way through any wire, from its body to an answer that only has to be written out.

The steps are the same for every wire and stand here once: parse the body, find the model, check the request, make its
prompt, find its reply and its fault, read the cache, decide the answer, bill it. `Exchange` is one request. A wire's
subclass says what is its own: the shape of its body, what it refuses, what its cache reads, how an answer is encoded.
What the API refuses is raised while the exchange is made, before anything is entered into the ledger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from lamella_simulator.access import Call, content_fault, cut_of, pace_of, raise_early
from lamella_simulator.answerer.conversation import Conversation
from lamella_simulator.answerer.speaking import recap, speak
from lamella_simulator.blocks import Prefix
from lamella_simulator.cache.ledger import Ledger, Outcome
from lamella_simulator.errors import ProviderError
from lamella_simulator.models import Model
from lamella_simulator.replies import Draft, Fault, Limits, Reply, compose
from lamella_simulator.request import ModelRequest
from lamella_simulator.state import Simulator
from lamella_simulator.stream import Answer, Encoder, Pace
from lamella_simulator.tokens import count_text, scaled

RequestT = TypeVar("RequestT", bound=ModelRequest)


@dataclass(frozen=True, slots=True)
class Pass:
    """The model has read a prompt once and written so many tokens; a request that compacts has two passes."""

    outcome: Outcome
    output: int
    compacts: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """A whole answer before its first byte: what is said, and every pass that is billed."""

    draft: Draft
    passes: tuple[Pass, ...]
    counted: Outcome | None = None
    """The usage that the answer reports, if it is not that of the last pass."""
    itemised: bool = False
    """The usage tells the passes one by one."""

    @property
    def outcome(self) -> Outcome:
        return self.passes[-1].outcome if self.counted is None else self.counted


class Exchange(ABC, Generic[RequestT]):
    """One request of a wire. Making it raises `ProviderError` for what the API refuses."""

    reply: Reply
    fault: Fault | None

    def __init__(self, call: Call, simulator: Simulator) -> None:
        self.call = call
        self.simulator = simulator
        self.settings = simulator.settings
        self.request = self.parse(call.body)
        self.model = self.find_model()
        self.factor = self.settings.token_factor or self.model.token_factor
        self.check()
        self.prefix = self.prompt()
        if self.prefix.total > self.model.window:
            raise self.too_long()

    @abstractmethod
    def parse(self, body: bytes) -> RequestT: ...

    @abstractmethod
    def find_model(self) -> Model: ...

    @abstractmethod
    def check(self) -> None: ...

    @abstractmethod
    def prompt(self) -> Prefix:
        """The prefix that is hashed and billed."""

    @abstractmethod
    def too_long(self) -> ProviderError: ...

    @abstractmethod
    def conversation(self) -> Conversation:
        """The request as the answerer sees it."""

    @abstractmethod
    def account(self, prefix: Prefix, ledger: Ledger) -> Outcome:
        """What a prompt reads and writes by the vendor's rules."""

    @abstractmethod
    def limits(self) -> Limits: ...

    @abstractmethod
    def encoder(self, decided: Decided) -> Encoder: ...

    def answer(self) -> Answer:
        """Decides the whole answer and enters it in ledger and log. Raises the faults that come before a byte."""
        self.find_reply()
        decided = self.decide()
        encoder = self.encoder(decided)
        record = self.call.record
        record.model, record.usage = self.model.id, encoder.usage
        record.cost = sum(self.simulator.cost(self.model, each.outcome, each.output) for each in decided.passes)
        record.note(self.prefix, decided.passes[0].outcome)
        for each in decided.passes:
            record.bill(each.outcome, each.output)
        chunk = self.reply.chunk or self.settings.chunk
        streams = self.request.streams
        return Answer(decided.draft, encoder, self.pace, chunk, cut_of(self.fault), self.fault, streams)

    def decide(self) -> Decided:
        """One pass over the prompt."""
        outcome = self.read(self.prefix)
        draft = self.draft()
        return Decided(draft, (Pass(outcome, draft.output_tokens),))

    def find_reply(self) -> None:
        """The reply that is named by a header, found by its text, or spoken freely; and the fault of this use."""
        call, simulator = self.call, self.simulator
        name, named_by = call.reply_id, "x-sim-reply"
        if name is None and any(reply.match is not None for reply in simulator.replies.values()):
            name = simulator.matching(self.conversation().last)
        if name is None:
            name, named_by = self.settings.default_reply, "default_reply"
        call.record.reply = name
        script = simulator.scripted(name, named_by)
        self.fault = simulator.fault(name, script)
        raise_early(self.fault)
        self.reply = speak(script, self.conversation)

    def suffers(self, kind: str) -> bool:
        return self.fault is not None and self.fault.name == kind

    @property
    def pace(self) -> Pace:
        return pace_of(self.reply, self.fault, self.call, self.simulator)

    def named(self, prefix: str) -> str:
        """An id of this answer."""
        return self.simulator.identifier(prefix, self.call.record.serial)

    def read(self, prefix: Prefix) -> Outcome:
        """Accounts for a prompt, by the vendor's rules or by an engine's, and enters it in the ledger."""
        call, simulator = self.call, self.simulator
        if self.settings.engine != "off":
            outcome = simulator.engine.account(prefix, self.settings, cold=self.suffers("cold_cache"))
        else:
            outcome = self.account(prefix, simulator.readable(self.fault))
        if not self.suffers("drop_before"):
            simulator.commit(outcome, call.now, call.now + self.pace.first)
        simulator.spend(call.account, call.now, self.limited(outcome))
        return outcome

    def limited(self, outcome: Outcome) -> int:
        """The tokens that count towards the limit of a minute."""
        return outcome.total

    def draft(self) -> Draft:
        name, when = content_fault(self.fault)
        return compose(self.reply, name, when, self.limits(), self.sign)

    def sign(self, text: str, tokens: int) -> str:
        """The signature of a thought."""
        return ""

    def sum_up(self, instructions: str) -> tuple[str, Pass]:
        """The prompt is read with instructions after it, and what is written is a summary."""
        outcome = self.read(self.prefix)
        behind = scaled(count_text(instructions), self.factor) + self.settings.message_overhead
        text = self.summary()
        written = scaled(count_text(text), self.factor) or 1
        return text, Pass(replace(outcome, total=outcome.total + behind), written, compacts=True)

    def summary(self) -> str:
        return recap(self.reply, self.conversation())
