"""A real llama.cpp server on loopback with the real SmolLM2 weights: what the tests call an OpenAI server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

CONTEXT_TOKENS = 1024
SLOTS = 4


@contextmanager
def running_llama_server() -> Iterator[str]:
    """The base URL of a server that lives inside this process, on a port that the system chose."""
    import xllamacpp

    from howsure.models.builtin import gguf_path

    params = xllamacpp.CommonParams()
    params.model.path = str(gguf_path())
    params.n_ctx = CONTEXT_TOKENS * SLOTS
    params.n_parallel = SLOTS
    params.port = 0
    params.warmup = False
    params.verbosity = 0
    # More threads wait for each other busily, and come to a stand where the machine has other work to do.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    # A prompt found in the cache is not computed again, which moves the last digits of what follows.
    params.cache_prompt = False
    server = xllamacpp.Server(params)
    try:
        yield f"{server.listening_address}/v1"
    finally:
        del server  # stops it
