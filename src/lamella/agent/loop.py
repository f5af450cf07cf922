"""The loop of a run: infer, run the tools, and again, until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from lamella.agent.citations import CitationWatch
from lamella.agent.container import (
    CUT_CALL,
    REFUSED_CALL,
    OpenStep,
    StateContainer,
    build_step,
    no_room_for_calls,
    partial_of,
)
from lamella.agent.hooks import Emitter, RunHooks
from lamella.agent.inputs import AgentServices, RunInput, TurnInput
from lamella.agent.request import PrefixLine, tool_choice_is_free
from lamella.agent.side import DigestSource, digestible, digests_of
from lamella.agent.steps import StepRequest, StepResult, StepRunner
from lamella.context.choices import KnownDecisions, pruned_steps
from lamella.core.decisions import Decision
from lamella.core.handover import pending
from lamella.core.json import encode_text
from lamella.core.messages import Attachment, Step, StopReason, ToolCall, ToolResult
from lamella.core.packets import ToolApprovalPacket, ToolHandedOut, ToolResultPacket, ToolVerdictPacket
from lamella.core.records import FoundDocument
from lamella.core.tokens import TokenCounter
from lamella.tooling.runner import ToolRunner
from lamella.tooling.tool import Invocation, ToolScope, Verdict

NOT_ACTING = (
    "This call did not run: several models answer this message, and only the first of them, or the one that the user "
    "keeps, may change anything without being asked. "
    "Say what you would have done."
)

LIMIT_REACHED = "The limit of steps for this turn is reached; this call did not run."
CALLS_REACHED = "The limit of calls for this request is reached; this call did not run."
NONE_ALLOWED = "This request allows no calls; this call did not run."
NO_OBJECT = "The arguments are not a JSON object, so this call was not made: {written}"


@dataclass(frozen=True, slots=True)
class ClosedStep:
    """A complete step: the provider's stop reason, and the calls that the output limit cut off."""

    step: Step
    why: str
    cut: Collection[str]


class Loop:
    """One run of one model over one turn."""

    def __init__(
        self,
        turn: TurnInput,
        run: RunInput,
        services: AgentServices,
        hooks: RunHooks,
        emitter: Emitter,
        container: StateContainer,
        line: PrefixLine | None,
    ) -> None:
        self._turn = turn
        self._run = run
        self._services = services
        self._hooks = hooks
        self._emitter = emitter
        self._container = container
        self._steps = turn.turn.steps
        self._before = len(self._steps)
        self._ran = 0
        """The calls of the server's tools so far."""
        self._citations = CitationWatch(turn.attachments)
        self._documents = KeptDocuments(hooks, services.counter)
        self._runner = StepRunner(turn, run, services, hooks, emitter, container, self._citations, line)

    @property
    def line(self) -> PrefixLine | None:
        """The state that the last request left for the next one."""
        return self._runner.line

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions that hold for the window now."""
        return self._runner.decisions

    @property
    def calibration(self) -> float:
        """The provider's tokens per local token, as known now."""
        return self._runner.calibration

    @property
    def has_shown(self) -> bool:
        """Whether anything of an answer has reached a client."""
        return self._runner.has_shown

    async def run(self) -> StopReason:
        """Run until the model answers without a call, or calls a tool of the caller; and report an incomplete answer.

        Raises `ContextLengthExceeded` or a `ProviderError`.
        """
        limit, most = self._run.step_limit, self._run.sampling.max_output
        cut_before = False
        for index in range(limit):
            last = index == limit - 1
            closed = await self._step(index, last=last)
            self._steps += (closed.step,)
            if closed.cut and cut_before:
                raise no_room_for_calls(closed.step, closed.cut, self._run.model.facts.name, most)
            cut_before = bool(closed.cut)
            is_handed = bool(pending(self._steps))
            is_over = is_handed or not closed.step.calls or closed.step.stop_reason is StopReason.REFUSAL
            if is_over:
                await self._digest()
            if is_over or last:
                partial = partial_of(closed.step, closed.why, most) if not is_handed else None
                if partial is not None:
                    self._emitter.emit(partial)
                return closed.step.stop_reason if is_over else StopReason.END_TURN
        raise AssertionError("the last step ends the loop")

    async def _digest(self) -> None:
        """Make the digests that replace old results, for tools that ask for it.

        A result that gave way within the turn keeps the stub that was sent.
        """
        turns = (replace(self._turn.turn, steps=self._steps),)
        stubs = pruned_steps(turns, KnownDecisions(self._run.model.facts.name, self.decisions).boundary(turns))
        whole = [step for step in self._steps[self._before :] if step.id not in stubs]
        wanted = digestible(whole, self._turn.tools)
        if wanted:
            source = DigestSource(self._turn, self._run, self._services, self._hooks, self._container)
            self._container.digested(await digests_of(wanted, source))

    async def _step(self, index: int, *, last: bool) -> ClosedStep:
        run = self._run
        forbids = last and tool_choice_is_free(run.model, run.sampling)
        sampling = replace(run.sampling, tool_choice="none") if forbids else run.sampling
        if index and sampling.forced:
            sampling = replace(sampling, tool_choice="auto")
        result = await self._runner.ask(StepRequest(index, self._steps, sampling, last))
        return await self._finish(result, last=last)

    async def _finish(self, result: StepResult, *, last: bool) -> ClosedStep:
        """Run the calls, if any, and close the step."""
        opened = result.opened
        parts = opened.parts()
        calls = [part for part in parts if isinstance(part, ToolCall)]
        if calls:
            places = result.places.items()
            block_of = {opened.call_ids[block]: shown for block, shown in places if block in opened.call_ids}
            await self._call(opened, calls, block_of, last=last)
        step = build_step(opened, parts, self._services.counter)
        self._container.close(step, opened.end(opened.usage, self._run.model.facts.cost(opened.usage)))
        return ClosedStep(step, opened.why, opened.cut_calls)

    async def _call(self, step: OpenStep, calls: list[ToolCall], block_of: Mapping[str, int], *, last: bool) -> None:
        def done(result: ToolResult, seconds: float | None = None) -> None:
            step.results[result.call_id] = result
            self._emitter.emit(
                ToolResultPacket(
                    call_id=result.call_id,
                    name=result.name,
                    content=result.content,
                    is_error=result.is_error,
                    seconds=None if seconds is None else round(seconds, 3),
                    queries=result.queries,
                    rich=result.rich,
                ),
                block_of[result.call_id],
            )

        running = []
        for call in calls:
            refusal = self._refusal(call, step, last=last)
            if refusal is not None:
                done(ToolResult(call.id, call.name, refusal, is_error=True))
            elif call.name in self._turn.callers:
                handed = ToolHandedOut(call_id=call.id, name=call.name, arguments=call.arguments)
                self._emitter.emit(handed, block_of[call.id])
                step.stop_reason = StopReason.TOOL_CALLS
            else:
                running.append(call)
                self._ran += 1
        if not running:
            return
        attachments = (*self._turn.attachments, *self._documents.kept)
        turns = (*self._turn.history, replace(self._turn.turn, steps=self._steps))
        approvals = StepApprovals(self._hooks, self._emitter, block_of)
        agent, project = self._turn.agent, self._turn.project
        scope = ToolScope(
            self._turn.caller,
            self._turn.conversation_id,
            attachments,
            self._documents,
            turns,
            approvals=approvals,
            agent_id=agent.id if agent is not None else None,
            base_ids=self._turn.knowledge_bases,
            project_files=tuple(file.file_id for file in project.files) if project is not None else (),
            room=self._runner.room // len(running),
        )
        self._documents.made_from = frozenset(step.birth.made_from)
        registry = self._services.registry.only(self._turn.tools)
        await ToolRunner(registry).run(running, scope, step.malformed, done)
        self._citations.know(self._documents.kept, self._documents.shown)

    def _refusal(self, call: ToolCall, step: OpenStep, *, last: bool) -> str | None:
        """Why a call is not run. Returns None if it is.

        If several models answer, only one may run calls with side effects; the others need the user's approval.
        """
        if step.stop_reason is StopReason.REFUSAL:
            return REFUSED_CALL
        if last:
            return LIMIT_REACHED
        if self._run.sampling.tool_choice == "none":
            return NONE_ALLOWED
        if call.id in step.cut_calls:
            return CUT_CALL.format(most=f"{self._run.sampling.max_output:,}")
        if call.name in self._turn.callers:
            written = step.malformed.get(call.id)
            return None if written is None else NO_OBJECT.format(written=written[:200])
        if self._run.most_calls is not None and self._ran >= self._run.most_calls:
            return CALLS_REACHED
        if not self._hooks.may_act(self._run.id) and self._services.registry.acts_unasked(call.name):
            return NOT_ACTING
        return None


class KeptDocuments:
    """The `Documents` of a run's calls. `kept` are those that it stored, with texts; `shown` is what was shown of
    others, by number.

    `made_from` are the knowledge bases with content in the window of the running calls.
    """

    def __init__(self, hooks: RunHooks, counter: TokenCounter) -> None:
        self._hooks = hooks
        self._counter = counter
        self.made_from: frozenset[str] = frozenset()
        self.kept: tuple[Attachment, ...] = ()
        self.shown: dict[int, str] = {}

    async def keep(self, document: FoundDocument) -> Attachment:
        """See `Documents`."""
        tokens = await asyncio.to_thread(self._counter.count, document.text)
        made = replace(document, made_from=tuple(sorted(self.made_from.union(document.made_from))))
        kept = await self._hooks.keep_document(made, tokens)
        self.kept = (*(other for other in self.kept if other.file_id != kept.file_id), kept)
        if document.shown:
            self.shown[kept.document] = "\n\n".join(filter(None, (self.shown.get(kept.document), document.shown)))
        return kept

    async def text(self, document_id: str) -> str:
        """See `Documents`."""
        return await self._hooks.document_text(document_id)


class StepApprovals:
    """The `ApprovalAsker` of a step's calls. It tells clients that a call waits, and the user's decision."""

    def __init__(self, hooks: RunHooks, emitter: Emitter, block_of: Mapping[str, int]) -> None:
        self._hooks = hooks
        self._emitter = emitter
        self._block_of = block_of

    async def ask(self, call: Invocation, name: str) -> Verdict:
        """See `ApprovalAsker.ask`."""
        packet = ToolApprovalPacket(call_id=call.id, name=name, arguments=encode_text(call.arguments))
        self._emitter.emit(packet, self._block_of[call.id])
        verdict = await self._hooks.approve(call, name)
        said = ToolVerdictPacket(call_id=call.id, approved=verdict.approved)
        self._emitter.emit(said, self._block_of[call.id])
        return verdict
