"""Tiny checkpoints with random weights, saved as any checkpoint is and loaded by the same code."""

from __future__ import annotations

from pathlib import Path

TINY_TEXT = """the quick brown fox jumps over the lazy dog and the answer is four, not five.
Question: what is the colour of the sky? Answer: the sky is blue.
Ünïcödé wörds, 数字 and emoji 🤖 are here too."""


def build_tiny(folder: Path, *, seed: int = 0, **overrides: object) -> Path:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = byte_level_tokenizer()
    settings: dict[str, object] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "initializer_range": 0.3,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        LlamaForCausalLM(LlamaConfig(**(settings | overrides))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def byte_level_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator([TINY_TEXT] * 4, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<s>", pad_token="<s>")


def build_ngram(folder: Path, *, order: int = 3) -> Path:
    """A small n-gram model of a text that knows every letter as a word."""
    from howsure.models.ngram.arpa import write_arpa
    from howsure.models.ngram.training import Piece, Smoothing, train

    text = f"{TINY_TEXT}\n{' '.join('abcdefghijklmnopqrstuvwxyz')}\nthe sky is a b c\n"
    path = folder / "tiny.arpa"
    write_arpa(train([Piece(text.encode())], order, Smoothing.WITTEN_BELL).table, path)
    return path
