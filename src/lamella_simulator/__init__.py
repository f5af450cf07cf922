"""A provider simulator: Anthropic's and OpenAI's wires over a real socket, with their prompt caches and bills.

It imports nothing of the engine: it is the judge of what the engine sends, and the model of the offline demo.

Start it with `python -m lamella_simulator [--host H] [--port 0] [--clock virtual|system] [--seed N] [--rate CHARS]
[--exit-with-stdin] [--option NAME=VALUE ...]`; its one line on stdout is `{"simulator": "http://127.0.0.1:PORT"}`.
In a test, `with simulated() as provider:` runs one in a thread and tells what was sent and what it cost;
`create_app(Settings(...))` is the same thing as an ASGI application, without a socket.

What it models
  wires       POST /v1/messages, /v1/messages/count_tokens, /v1/chat/completions, /v1/responses (with input_tokens and
              compact), /v1/embeddings, GET /v1/models
  caches      Anthropic's markers with two lives; OpenAI's endings and breakpoints; token steps of older models; the
              prefix caches of engines by option
  contexts    clearing of results and thinking, compaction, and diagnostics of a missed cache, as the vendors do them
  tokens      o200k counts times a factor per model, block by block, so that sums are additive
  rules       message order, tool pairing, markers, windows, thinking signatures and their prefix check
  answers     a script, or an extractive answerer that quotes the documents of the request and nothing else

Headers that rule one request
  x-sim-reply  the id of a scripted reply
  x-sim-now    its time, ISO 8601 (virtual clock only; need not grow)
  x-sim-rate   characters per second of its stream (system clock only)

Admin calls, without a key
  POST /_sim/replies   {"ID": {"match", "text" | "rule", "summary", "reasoning", "tool_calls", "output_tokens",
                       "stop_reason", "ttft_ms", "ms", "chunk", "fault": {"kind", "when", "times", "retry_after",
                       "ms"}}}, see `replies`
  GET|POST /_sim/faults    [FAULT, ...] for the next requests
  GET|POST /_sim/prices    {"MODEL": {"input", "output", "read", "write_short", "write_long"}} in dollars per million
  GET|POST /_sim/clock {"now": ISO 8601} or {"advance_seconds": N}
  GET /_sim/ledger     every cache entry written
  GET /_sim/requests   the last requests as received, with usage, cost, what was streamed and the last block that
                       was read; ?last=N, ?bodies=no
  GET|POST /_sim/settings   any field of `settings.Settings`
  POST /_sim/reset     forget cache, scripts, faults, prices, log and limits

Where the vendors document nothing, `settings` names the choice.
"""

from lamella_simulator.app import create_app
from lamella_simulator.provider import Provider, simulated
from lamella_simulator.settings import Settings

__version__ = "0.1.0"

__all__ = ["Provider", "Settings", "__version__", "create_app", "simulated"]
