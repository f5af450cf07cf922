"""Makes a tiny llama model of random weights, with a vocabulary trained on texts of this repository.

It says nothing sensible and is not meant to: an engine caches the prompts of any model alike. The chat template writes
a message as one token of its role, its text, and one token of its end, as the simulator counts with an overhead of two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 4_096
WIDTH, HEADS, LAYERS, INNER = 64, 4, 2, 128
CONTEXT = 32_768
SPECIAL = ("<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
OVERHEAD = 2


@dataclass(frozen=True, slots=True)
class TinyModel:
    weights: Path
    """For the engine."""
    tokenizer: Path
    """The same vocabulary for the simulator."""


def make_model(folder: Path, texts: list[Path], seed: int = 0) -> TinyModel:
    """Writes `tiny.gguf` and `tokenizer.json` into a folder; the same texts and seed make the same bytes."""
    tokenizer = trained(texts)
    made = TinyModel(folder / "tiny.gguf", folder / "tokenizer.json")
    tokenizer.save(str(made.tokenizer))
    writer = gguf.GGUFWriter(str(made.weights), "llama")
    write_shape(writer)
    write_vocabulary(writer, tokenizer)
    write_weights(writer, tokenizer.get_vocab_size(), np.random.default_rng(seed))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


def trained(texts: list[Path]) -> Tokenizer:
    """A byte-level BPE, split as GPT-2's is."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(path) for path in texts], trainer)
    return tokenizer


def write_shape(writer: gguf.GGUFWriter) -> None:
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def write_vocabulary(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    tokens = [tokenizer.id_to_token(index) or "" for index in range(tokenizer.get_vocab_size())]
    kinds = [gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges_of(tokenizer))
    writer.add_eos_token_id(tokens.index("<|end|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def merges_of(tokenizer: Tokenizer) -> list[str]:
    """Pairs in the order in which they were learnt, each as two tokens with a space between."""
    learnt = json.loads(tokenizer.to_str())["model"]["merges"]
    return [pair if isinstance(pair, str) else " ".join(pair) for pair in learnt]


def write_weights(writer: gguf.GGUFWriter, vocabulary: int, random: np.random.Generator) -> None:
    def add(name: str, *shape: int) -> None:
        writer.add_tensor(name, (random.standard_normal(shape) * 0.05).astype(np.float32))

    def ones(name: str) -> None:
        writer.add_tensor(name, np.ones(WIDTH, np.float32))

    add("token_embd.weight", vocabulary, WIDTH)
    for layer in range(LAYERS):
        at = f"blk.{layer}"
        ones(f"{at}.attn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"{at}.{name}.weight", WIDTH, WIDTH)
        ones(f"{at}.ffn_norm.weight")
        add(f"{at}.ffn_gate.weight", INNER, WIDTH)
        add(f"{at}.ffn_up.weight", INNER, WIDTH)
        add(f"{at}.ffn_down.weight", WIDTH, INNER)
    ones("output_norm.weight")
    add("output.weight", vocabulary, WIDTH)
