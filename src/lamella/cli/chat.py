"""`lamella chat`: a conversation in the terminal. Streams; a pipe in is the prompt; Ctrl-C stops an answer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from lamella.cli.api import Api, open_api
from lamella.cli.approvals import CallQuestions, Keyboard
from lamella.cli.failures import report
from lamella.cli.logs import configure_logs
from lamella.cli.main import DataOption, KeyOption, cli
from lamella.cli.piped import TypedInput, unsent
from lamella.cli.timezone import local_zone
from lamella.core.errors import InvalidRequest, LamellaError
from lamella.core.models import effort_named
from lamella.core.packets import (
    AnyPacket,
    CitationPacket,
    CommandPacket,
    ContextDegraded,
    ErrorPacket,
    ModelFallback,
    PacketsExpired,
    PartialPacket,
    ReasoningPacket,
    RequestStarted,
    RunFinished,
    RunStarted,
    SourcePacket,
    TextPacket,
    ToolCallPacket,
    ToolHandedOut,
    ToolResultPacket,
    TurnFinished,
    TurnQueued,
    TurnStarted,
    TurnStopped,
    UsageBody,
    UsagePacket,
    encode_packet,
)
from lamella.settings import Settings, read_settings

DIM, PLAIN = "\033[2m", "\033[0m"
SHOWN_PASSAGE = 160
MOST_MODELS = 3


@cli.command("chat")
def chat_command(
    text: Annotated[str | None, typer.Argument(help="The message. Without it, an interactive chat begins.")] = None,
    file: Annotated[
        list[Path] | None, typer.Option("-f", "--file", metavar="FILE", help="A file to attach; may be repeated.")
    ] = None,
    conversation: Annotated[
        str | None, typer.Option("-c", "--conversation", help="Continue this conversation; of a client's, a copy.")
    ] = None,
    data: DataOption = None,
    key: KeyOption = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="The model that answers; repeated, up to three answer. Default: LAMELLA_MODEL."
        ),
    ] = None,
    effort: Annotated[
        str | None, typer.Option(help="Thinking effort: off, low, medium, high or a number of tokens.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the packets as JSON lines.")] = False,
) -> None:
    """Chat in the terminal."""
    configure_logs()
    written = TypedInput(text or "", "" if sys.stdin.isatty() else sys.stdin.read().removeprefix("\ufeff"))
    if written.is_empty and not sys.stdin.isatty():
        raise InvalidRequest("The message is empty.", hint="Give it as an argument or through the pipe.")
    wanted = effort_named(effort, "--effort") if effort is not None else None
    models = tuple(model or ())
    if len(models) > MOST_MODELS:
        raise InvalidRequest(f"{len(models)} models are too many.", hint="Name one to three.", param="--model")
    settings = read_settings(data=data, key=key, model=models[0] if models else None)
    talk = _Talk(settings, conversation, models, json, wanted)
    sys.exit(asyncio.run(talk.run(written, file or [])))


class _Talk:
    """One sitting at the terminal."""

    def __init__(
        self, settings: Settings, conversation: str | None, models: tuple[str, ...], json: bool, effort: str | None
    ) -> None:
        self._settings = settings
        self._effort = effort
        self._conversation = conversation
        self._models = models
        self._json = json
        self._told: str | None = None
        self._printed: set[str] = set()
        self._cautions: set[str] = set()
        self._running: set[str] = set()
        self._stops: set[asyncio.Task[None]] = set()
        self._unheard: set[object] = set()
        self._streams = 0
        self._taken = False
        """Whether anything was sent that was not refused."""
        self._color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")

    async def run(self, typed: TypedInput, files: list[Path]) -> int:
        async with open_api(self._settings) as api:
            status = await api.get("/status")
            self._answering = " and ".join(self._models) if len(self._models) > 1 else str(status["model"])
            messages: tuple[str, ...] = () if typed.is_empty else (typed.whole,)
            if typed.may_be_command:
                messages = typed.in_order(await api.usages(), files=bool(files))
            self._asking = CallQuestions(api, self._say, somebody=sys.stdin.isatty())
            if status["notice"]:
                sys.stderr.write(f"{self._dim(status['notice'])}\n")
            file_ids = await self._upload(api, files)
            if self._conversation is not None:
                conversation = await self._continued(api, self._conversation)
            else:
                conversation = await api.conversation(self._models[0] if self._models else None)
            self._told, _ = await api.notifications(conversation, None)
            try:
                if messages:
                    code = await self._in_order(api, conversation, messages, file_ids)
                else:
                    code = await self._at_prompt(api, conversation, file_ids)
            except LamellaError:
                await self._forget_unused(api, conversation)
                raise
            if not await self._forget_unused(api, conversation):
                await api.wait_until_idle(conversation)
                await self._tell(api, conversation)
            return code

    async def _continued(self, api: Api, conversation: str) -> str:
        """The conversation to go on with: of a client's, a fork."""
        found = await api.get(f"/conversations/{conversation}")
        if not found["observed"]:
            return str(found["id"])
        made = await api.post(f"/lines/{conversation}/fork")
        sys.stderr.write(f"{self._dim('Goes on from the conversation of a client as ' + made['id'] + '.')}\n")
        return str(made["id"])

    async def _forget_unused(self, api: Api, conversation: str) -> bool:
        """Remove the conversation of this sitting if all that was sent was refused."""
        unused = self._conversation is None and not self._taken
        if unused:
            with suppress(LamellaError):  # why the message was refused is the better reason
                await api.forget(conversation)
        return unused

    async def _in_order(self, api: Api, conversation: str, messages: tuple[str, ...], file_ids: tuple[str, ...]) -> int:
        """Send one after the other; the files go with the last. After one that failed no more are sent.

        What a tool asks meanwhile is answered at the keyboard, if there is one.
        """
        keyboard = Keyboard(self._asking) if sys.stdin.isatty() else None
        if keyboard is not None:
            keyboard.open()
        try:
            for sent, message in enumerate(messages, start=1):
                rest, code = messages[sent:], 1
                try:
                    code = await self._answer(api, conversation, message, () if rest else file_ids)
                finally:
                    if code and rest:
                        self._say(unsent(rest))
                if code:
                    return code
            return 0
        finally:
            if keyboard is not None:
                keyboard.close()

    async def _tell(self, api: Api, conversation: str) -> None:
        """Print what the conversation was told meanwhile: a compaction that ended, results that were pruned."""
        self._told, texts = await api.notifications(conversation, self._told)
        for text in texts:
            sys.stderr.write(f"\n{self._dim(text)}\n")

    async def _upload(self, api: Api, files: list[Path]) -> tuple[str, ...]:
        ids = []
        for path in files:
            uploaded = await api.upload(path)
            if uploaded.status != "ready":
                raise InvalidRequest(f"{uploaded.name}: {uploaded.reason}", param=str(path))
            if uploaded.reason:
                sys.stderr.write(self._dim(f"{uploaded.name}: {uploaded.reason}") + "\n")
            ids.append(uploaded.id)
        return tuple(ids)

    async def _at_prompt(self, api: Api, conversation: str, file_ids: tuple[str, ...]) -> int:
        sys.stderr.write(self._dim(f"{conversation} · {self._answering} · /help lists commands, Ctrl-D ends") + "\n")
        talking: set[asyncio.Task[None]] = set()
        while True:
            try:
                line = await asyncio.to_thread(input, "\n> ")
            except EOFError:
                break
            try:
                if await self._asking.answer(line):
                    continue
                if not line.strip():
                    await api.flush(conversation)
                    continue
                taken = asyncio.Event()
                task = asyncio.create_task(self._line(api, conversation, line, file_ids, taken))
                talking.add(task)
                task.add_done_callback(talking.discard)
                # The next line is sent when this one has its place.
                await taken.wait()
                file_ids = ()
            except LamellaError as error:
                report(error)
        if talking:
            await api.flush(conversation)
            await asyncio.gather(*talking)
        return 0

    async def _line(
        self, api: Api, conversation: str, line: str, file_ids: tuple[str, ...], taken: asyncio.Event
    ) -> None:
        """Send a line of the prompt and show what comes of it; others may be typed meanwhile."""
        try:
            await self._answer(api, conversation, line, file_ids, taken)
            await self._tell(api, conversation)
        except LamellaError as error:
            report(error)
        finally:
            taken.set()

    async def _answer(
        self,
        api: Api,
        conversation: str,
        text: str,
        file_ids: tuple[str, ...],
        taken: asyncio.Event | None = None,
    ) -> int:
        """Print one turn; 1 when it failed. Ctrl-C asks it to stop and lets it end.

        `taken` is set with the first packet; without it nobody types meanwhile, and no more messages are waited for.
        """
        shown, order = _Shown(self._color, len(self._models) > 1, self._cautions), _InOrder()
        models = self._models if len(self._models) > 1 else ()
        mine, sent = "", object()
        self._streams += 1
        self._unheard.add(sent)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._stop_all, api, conversation)
        try:
            packets = api.send(
                conversation,
                text,
                file_ids=file_ids,
                models=models,
                timezone=local_zone(),
                thinking_effort=self._effort,
                debounce_ms=0 if taken is None else None,
            )
            async for packet in packets:
                self._taken = True
                self._unheard.discard(sent)
                if taken is not None:
                    taken.set()
                if isinstance(packet, TurnStarted):
                    if packet.turn_id in self._printed:
                        return 0  # Answered together with a message before it, whose stream prints the turn.
                    mine = packet.turn_id
                    self._printed.add(mine)
                    self._running.add(mine)
                await self._print(packet, shown, order, api)
        finally:
            self._running.discard(mine)
            self._streams -= 1
            self._unheard.discard(sent)
            if self._streams == 0:
                asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        return 1 if shown.failed else 0

    async def _print(self, packet: AnyPacket, shown: _Shown, order: _InOrder, api: Api) -> None:
        """Print what a packet says, or the packet itself with `--json`."""
        await self._asking.hear(packet)
        if self._json:
            sys.stdout.write(encode_packet(packet).decode() + "\n")
        else:
            for next_one in order.next(packet):
                await shown.show(next_one, api)
        sys.stdout.flush()

    def _stop_all(self, api: Api, conversation: str) -> None:
        """Stop what runs, and what was sent and has not been heard of yet."""
        stops = [api.stop(turn_id) for turn_id in self._running]
        if not stops and self._unheard:
            stops = [api.abort(conversation)]
        self._stops |= {asyncio.ensure_future(stop) for stop in stops}

    def _say(self, text: str) -> None:
        sys.stdout.flush()
        sys.stderr.write(f"\n{text}\n")
        sys.stderr.flush()

    def _dim(self, text: str) -> str:
        return f"{DIM}{text}{PLAIN}" if self._color else text


class _InOrder:
    """Prints the answers of several models one after the other; the first one that continues is printed as it
    streams.
    """

    def __init__(self) -> None:
        self._held: dict[int, list[AnyPacket]] = {}

    def next(self, packet: AnyPacket) -> Iterator[AnyPacket]:
        """What can be told now that this packet came."""
        if isinstance(packet, RunStarted):
            self._held[packet.model_index] = []
        if isinstance(packet, TurnStopped | TurnFinished):
            yield from chain.from_iterable(self._held.values())
            self._held.clear()
        if packet.model_index not in self._held:
            yield packet
            return
        self._held[packet.model_index].append(packet)
        while self._held:
            index, waiting = next(iter(self._held.items()))
            yield from waiting
            if not (waiting and isinstance(waiting[-1], RunFinished)):
                waiting.clear()
                return
            del self._held[index]


class _Shown:
    """What of a turn is on the screen; of `several` models each with its name. `cautions` were told in this sitting."""

    def __init__(self, color: bool, several: bool, cautions: set[str]) -> None:
        self._color = color
        self._several = several
        self._cautions = cautions
        self._citations: dict[int, CitationPacket] = {}
        self._titles: dict[int, str] = {}
        self._block: int | None = None
        self._usage: UsagePacket | None = None
        self.failed = False

    def _write(self, text: str, *, dim: bool = False) -> None:
        sys.stdout.write(f"{DIM}{text}{PLAIN}" if dim and self._color else text)

    async def show(self, packet: AnyPacket, api: Api) -> None:
        if packet.block_index is not None and packet.block_index != self._block:
            if self._block is not None:
                self._write("\n\n")
            self._block = packet.block_index
        match packet:
            case SourcePacket(document=document, title=title):
                self._titles[document] = title
            case TextPacket(text=text):
                self._write(text)
            case ReasoningPacket(text=text):
                self._write(text, dim=True)
            case ToolCallPacket(name=name):
                self._write(f"[{name} …]", dim=True)
            case ToolHandedOut():
                self._write(" handed to the caller", dim=True)
            case ToolResultPacket(content=content, is_error=is_error):
                self._write(f" {'failed: ' + content if is_error else f'{len(content):,} characters'}", dim=True)
            case TurnQueued(position=place, due_at=due):
                now = " Empty Enter answers now." if due else ""
                sys.stderr.write(
                    f"{DIM if self._color else ''}[{place} in the queue.{now}]{PLAIN if self._color else ''}\n"
                )
            case CommandPacket(answer=answer):
                self._write(f"{answer}\n")
            case CitationPacket(document=document):
                self._citations.setdefault(document, packet)
            case RequestStarted():
                self._usage = None
            case UsagePacket():
                self._usage = packet
            case RunStarted():
                self._begin(packet)
            case RunFinished() if self._several:
                self._write("\n" + ("[stopped]\n" if packet.status == "user_cancelled" else ""))
                self._write(_bill(packet.usage, packet.cost), dim=True)
            case ModelFallback(requested_model=asked, model=model, error=error):
                sys.stderr.write(f"{asked} failed: {error['message']} {model} answers.\n")
            case ContextDegraded(why=why):
                sys.stderr.write(f"{why}\n")
            case PacketsExpired(expired_at=at, kept_days=days):
                kept = "1 day" if days == 1 else f"{days} days"
                sys.stderr.write(f"The record of this turn expired on {at[:10]}, after {kept}.\n")
            case PartialPacket(message=message, hint=hint):
                self._write("\n")
                sys.stdout.flush()
                sys.stderr.write(f"{message} {hint}\n")
            case _:
                await self._show_end(packet, api)

    def _begin(self, packet: RunStarted) -> None:
        if packet.caution and packet.caution not in self._cautions:
            self._cautions.add(packet.caution)
            sys.stderr.write(f"{packet.caution}\n")
        if self._several:
            self._block = None
            self._write(f"\n{packet.model}\n")

    async def _show_end(self, packet: AnyPacket, api: Api) -> None:
        match packet:
            case ErrorPacket(error=error):
                self.failed = True
                self._write("\n")
                report(LamellaError(str(error["message"]), hint=error["hint"]))
            case TurnStopped(reason=reason):
                self._write("\n[stopped]" if reason == "user_cancelled" else "\n[interrupted]", dim=True)
            case TurnFinished(status=status):
                # One of several may fail, and what could not be saved at once may be saved since.
                self.failed = status == "failed"
                self._write("\n")
                await self._show_sources(api)
                if not self._several:
                    self._write(self._summary(packet), dim=True)
            case _:
                pass

    async def _show_sources(self, api: Api) -> None:
        for document, citation in sorted(self._citations.items()):
            where = f", page {citation.page}" if citation.page else ""
            line = f"\n[{document}] {self._titles.get(document, citation.file_id)}{where}"
            if citation.file_id and citation.passage_start is not None and citation.passage_end is not None:
                text = await api.passage(citation.file_id, citation.passage_start, citation.passage_end)
                quoted = " ".join(text.split())
                line += f": “{quoted[:SHOWN_PASSAGE]}{'…' if len(quoted) > SHOWN_PASSAGE else ''}”"
            self._write(line, dim=True)
        if self._citations:
            self._write("\n")

    def _summary(self, ended: TurnFinished) -> str:
        """How full the window was at the last request, or what a turn was billed that ended before its last bill."""
        if self._usage is None:
            return f"\n{bill}" if (bill := _bill(ended.usage, ended.cost)) else ""
        usage = self._usage.usage
        share = f" · {usage.cache_read / usage.input:.0%} cached" if usage.input else ""
        return f"\n{usage.input:,} / {self._usage.budget:,} tokens{share} · ${self._usage.cost:.4f}\n"


def _bill(usage: UsageBody | None, cost: float) -> str:
    """`3,214 tokens · 81% cached · ≈620 out · ≈$0.0123`; ≈ is an estimate of what a provider did not tell."""
    if usage is None or not usage.input:
        return ""
    guessed, about = "≈" if usage.input_estimated else "", "≈" if usage.estimated else ""
    share = f"{usage.cache_read / usage.input:.0%} cached"
    return f"{guessed}{usage.input:,} tokens · {share} · {about}{usage.output:,} out · {about}${cost:.4f}\n"
