"""The same conversation through other agent libraries and through Lamella, all against the provider simulator.

    python bench/peers.py [NAME ...] [--environments DIR] [--json]

Makes an environment for each library (uv where there is one, else venv and pip; they stay in DIR for the next time),
starts a fresh simulator for each, runs its driver (`peering/*_peer.py`, which says how it is configured) and adds up
what the simulator billed, summaries included. The conversation (`peering/conversation.py`): 40 questions, each with one
look-up, a minute apart on virtual time, and a last question that asks for all facts; the simulator's summaries keep
every fact that they are shown. Lamella replays it as a trace. Facts are those in the last answer, or for Lamella in
its last request: of those that answers said, and of those in results alone.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peering.conversation import Conversation
from processes import clean_environment, simulator
from tables import arguments, emit, show

HERE = Path(__file__).parent
CONVERSATION = Conversation()
CLAUDE, GPT = "claude-opus-5", "gpt-5.6"
NO_PRUNING: dict[str, object] = {"tool_prune_when": "full", "tool_prune_threshold": 1_000_000}
PATIENCE = 600


@dataclass(frozen=True, slots=True)
class Peer:
    """A library, with what is installed for it."""

    name: str
    driver: str
    packages: tuple[str, ...]
    model: str = CLAUDE
    options: tuple[str, ...] = ()
    """Of the simulator, where a library needs one to come to its end."""


PEERS = (
    Peer("LangChain", "langchain_peer", ("langchain", "langchain-anthropic")),
    Peer("OpenAI Agents SDK", "openai_agents_peer", ("openai-agents",), GPT),
    Peer("Pydantic AI", "pydantic_ai_peer", ("pydantic-ai-slim[anthropic]",)),
    Peer("Google ADK", "google_adk_peer", ("google-adk", "litellm", "mcp"), options=("assistant_may_begin=true",)),
    Peer("Strands Agents", "strands_peer", ("strands-agents[anthropic]",)),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What a run used: tokens of input, of it read and written; facts kept, said ones and those in results alone."""

    name: str
    model: str
    versions: str
    requests: int = 0
    tokens: tuple[int, ...] = (0, 0, 0)
    cost: float = 0.0
    facts: tuple[int, int] = (0, 0)
    failed: str = ""


def environment_of(peer: Peer, folder: Path) -> Path:
    """The Python of a library's environment, made where it is missing. Raises CalledProcessError."""
    made = folder / peer.driver
    python = made / "bin" / "python"
    if (made / "installed").exists():
        return python
    uv = shutil.which("uv")
    if uv is not None:
        run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(made)])
        run([uv, "pip", "install", "--quiet", "--python", str(python), *peer.packages])
    else:
        run([sys.executable, "-m", "venv", "--clear", str(made)])
        run([str(python), "-m", "pip", "install", "--quiet", *peer.packages])
    (made / "installed").touch()
    return python


def run(command: list[str]) -> str:
    """What a command prints. In `bench`, so that a driver finds the modules beside it. Raises SubprocessError."""
    environment = clean_environment() | {"NO_PROXY": "*"}
    ran = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=PATIENCE, env=environment, cwd=HERE
    )
    return ran.stdout


def told(address: str, call: str, body: object = None) -> dict[str, Any]:
    """One admin call of the simulator."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"{address}/_sim/{call}", data) as answer:
        return dict(json.load(answer))


def through(peer: Peer, folder: Path) -> Result:
    """A library's run; one that does not come to its end is told with the reason."""
    try:
        python = environment_of(peer, folder)
        options = ("keep_requests=10000", *peer.options)
        with simulator("--clock", "virtual", *(word for option in options for word in ("--option", option))) as running:
            told(running.url, "replies", CONVERSATION.replies())
            told(running.url, "settings", {"default_reply": "else"})
            said = run([str(python), "-m", f"peering.{peer.driver}", running.url])
            logged = told(running.url, "requests")["requests"]
    except subprocess.SubprocessError as error:
        output = str(getattr(error, "stderr", "") or error).strip()
        return Result(peer.name, peer.model, "", failed=output.splitlines()[-1] if output else type(error).__name__)
    ended = json.loads(said.strip().splitlines()[-1])
    versions = ", ".join(f"{name} {version}" for name, version in ended["versions"].items())
    bills = [bill_of(record["usage"]) for record in logged]
    return Result(
        peer.name,
        peer.model,
        versions,
        requests=len(logged),
        tokens=tuple(sum(column) for column in zip(*bills, strict=True)),
        cost=sum(record["cost"] for record in logged),
        facts=kept(ended["answer"]),
    )


def bill_of(usage: dict[str, Any]) -> tuple[int, ...]:
    """Input, read and written tokens of a request of either vendor; a compaction's own pass among them."""
    if "iterations" in usage:
        return tuple(sum(column) for column in zip(*map(bill_of, usage["iterations"]), strict=True))
    if "cache_read_input_tokens" in usage:
        read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        return usage["input_tokens"] + read + written, read, written
    details = usage["input_tokens_details"]
    return usage["input_tokens"], details["cached_tokens"], details["cache_write_tokens"]


def kept(text: str) -> tuple[int, int]:
    """Facts in a text: of those that answers have said, and of those in results alone."""
    found = set(re.findall(r"FACT-\d\d", text)) & CONVERSATION.facts
    return len(found & CONVERSATION.said), len(found - CONVERSATION.said)


def by_lamella(name: str, model: str, settings: dict[str, object]) -> Result:
    """The same conversation replayed by Lamella."""
    with tempfile.TemporaryDirectory(prefix="lamella-peers-") as folder:
        trace, bodies = Path(folder) / "trace.json", Path(folder) / "bodies"
        trace.write_text(json.dumps(CONVERSATION.trace(model, settings)))
        lamella = str(Path(sys.executable).with_name("lamella"))
        report = json.loads(run([lamella, "replay", str(trace), "--json", "--dump", str(bodies)]))
        last = (bodies / report["requests"][-1]["body"]).read_text()
    totals = report["totals"]
    tokens = tuple(totals[field] for field in ("input", "read", "written"))
    return Result(name, model, "", totals["requests"], tokens, totals["cost"], kept(last))


def rows_of(results: list[Result]) -> list[tuple[str, ...]]:
    """The table; the cost is set against Lamella's without pruning, with the same model."""
    base = {result.model: result.cost for result in results if result.name == "Lamella, nothing pruned"}
    table: list[tuple[str, ...]] = [
        ("library", "versions", "model", "requests", "input", "read", "written", "cost", "to Lamella", "facts")
    ]
    for one in results:
        if one.failed:
            table.append((one.name, one.versions, one.model, f"not run: {one.failed}", "", "", "", "", "", ""))
            continue
        tokens = (f"{count:,}" for count in one.tokens)
        ratio = f"{one.cost / base[one.model]:.2f}" if one.model in base else ""
        facts = f"{one.facts[0]} + {one.facts[1]}"
        table.append((one.name, one.versions, one.model, str(one.requests), *tokens, f"${one.cost:.3f}", ratio, facts))
    return table


def main() -> int:
    """Run what was asked for, and print the table."""
    parser = arguments(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", help="drivers to run; all without one")
    parser.add_argument("--environments", type=Path, default=Path(tempfile.gettempdir()) / "lamella-peers")
    asked = parser.parse_args()
    chosen = [peer for peer in PEERS if not asked.names or peer.driver in asked.names]
    results = []
    for model in sorted({peer.model for peer in chosen}):
        results.append(by_lamella("Lamella", model, {}))
        results.append(by_lamella("Lamella, nothing pruned", model, NO_PRUNING))
    results += [through(peer, asked.environments) for peer in chosen]
    if asked.json:
        emit([asdict(result) for result in results])
    else:
        show(rows_of(results))
    return int(any(result.failed for result in results))


if __name__ == "__main__":
    sys.exit(main())
