"""Forks `lamella serve` from a process that has loaded it already, so that a server is up in a moment.

    python nursery.py DATA [PORT]

Each line on standard input starts one; it says `pid N` first, and then what `lamella serve` says.
"""

from __future__ import annotations

import gc
import os
import sys

import lamella.cli.serve
import lamella.llm.anthropic
import lamella.storage.migrations.upgrade
from lamella.cli.main import main as run

LOADED = (lamella.cli.serve, lamella.llm.anthropic, lamella.storage.migrations.upgrade)
"""What a server loads once it is asked for: here, so that no child has to."""


def main() -> None:
    data, port = sys.argv[1], (sys.argv[2:] or ["0"])[0]
    gc.freeze()
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            sys.argv = ["lamella", "serve", "--port", port, "--data", data]
            run()
            os._exit(0)
        sys.stdout.write(f"pid {child}\n")
        sys.stdout.flush()
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
