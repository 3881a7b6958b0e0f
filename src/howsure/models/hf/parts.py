"""What a Hugging Face model is made of, each part loaded when it is first needed.

So a dry run, which only counts tokens, costs no weights, and a model that was closed loads them again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from howsure.errors import InputError
from howsure.models import builtin
from howsure.models.contract import Counters, Model, ModelOptions
from howsure.models.text import TextEncoder

if TYPE_CHECKING:
    from howsure.models.hf.files import ModelFiles

CPU_TOKEN_BUDGET = 2048
GPU_TOKEN_BUDGET = 16384


class ModelParts(Model):
    """Tokenizer, configuration, network and scorer of one checkpoint."""

    def __init__(
        self,
        name: str,
        files: Callable[[], ModelFiles],
        adapter: ModelFiles | None,
        options: ModelOptions,
        built_in: bool,
    ) -> None:
        self.name = name
        self.counters = Counters()
        self._find_files = files
        self._adapter = adapter
        self._options = options
        self._built_in = built_in
        if options.token_budget is not None and options.token_budget < 1:
            raise InputError(f"the token budget must be at least 1, not {options.token_budget}")

    @cached_property
    def files(self) -> ModelFiles:
        return self._find_files()

    @property
    def source(self) -> str:
        """The folder, or the name on the Hub, as it was given."""
        return self.files.source

    @cached_property
    def tokenizer_files(self) -> ModelFiles:
        """Those of the model, unless a tokenizer was named."""
        if self._options.tokenizer is None:
            return self.files
        from howsure.models.hf.files import TOKENIZER, ModelFiles
        from howsure.models.hf.loading import resolve

        named = Path(self._options.tokenizer).expanduser()
        alone = any((named / name).exists() for name in ("tokenizer.json", "tokenizer_config.json"))
        source = str(named) if alone else resolve(self._options.tokenizer)
        return ModelFiles(source, TOKENIZER, trust_remote_code=self._options.trust_remote_code)

    @cached_property
    def device(self) -> str:
        from howsure.models.hf.loading import choose_device

        return choose_device(self._options.device, self._options.elsewhere)

    @property
    def threads(self) -> int | None:
        from howsure.models.hf.loading import threads_on

        return threads_on(self.device)

    @cached_property
    def encoder(self) -> TextEncoder:
        from howsure.models.hf.loading import load_tokenizer

        return TextEncoder(load_tokenizer(self.tokenizer_files, self._options.trust_remote_code))

    @cached_property
    def network(self) -> Any:
        from howsure.models.hf.loading import load_network

        self._announce_loading()
        return load_network(self.files, self._adapter, self.dtype, self.device, self._options.trust_remote_code)

    @property
    def dtype(self) -> str:
        return self._options.dtype or ("float32" if self.device == "cpu" else "auto")

    def _announce_loading(self) -> None:
        if not self._built_in:
            self._announce(f"loading {self.name}")

    def _announce(self, remark: str) -> None:
        if self._options.announce is not None:
            self._options.announce(remark)

    @cached_property
    def scorer(self) -> Any:
        scorer = self._make_scorer()
        if scorer.way == "plain":
            self._announce(f"{self.name} does not take packed rows: each choice is run by itself, which is slower")
        if self._options.compile:
            scorer.compile()
        return scorer

    def _make_scorer(self) -> Any:
        from howsure.models.hf.scoring import Scorer

        return Scorer(self.network, self.pad_id, self.counters)

    @cached_property
    def whole_config(self) -> Any:
        from howsure.models.hf.loading import load_config

        return load_config(self.files, self._options.trust_remote_code)

    @property
    def config(self) -> Any:
        """The configuration of the language part."""
        return self.whole_config.get_text_config()

    @property
    def pad_id(self) -> int:
        pad = self.encoder.tokenizer.pad_token_id
        return int(pad) if pad is not None else 0

    @property
    def token_budget(self) -> int:
        default = CPU_TOKEN_BUDGET if self.device == "cpu" else GPU_TOKEN_BUDGET
        return self._options.token_budget if self._options.token_budget is not None else default

    @property
    def context_tokens(self) -> int | None:
        """The longest sequence that the model was made for; None where its configuration does not say."""
        limit = getattr(self.config, "max_position_embeddings", None)
        return limit if isinstance(limit, int) else None

    @property
    def takes_chat(self) -> bool:
        return self.encoder.tokenizer.chat_template is not None

    def load(self) -> None:
        _ = self.scorer

    def close(self) -> None:
        """Let go of the weights; the next use loads them again."""
        for part in ("scorer", "network"):
            self.__dict__.pop(part, None)
        if "device" in self.__dict__ and self.device != "cpu":
            import torch

            torch.cuda.empty_cache()

    def fingerprint(self) -> dict[str, Any]:
        out: dict[str, Any] = {"backend": "hf", "token_budget": self.token_budget, "device": self.device}
        if self._options.dtype is not None:
            out["dtype"] = self._options.dtype
        if self._options.compile:
            out["compile"] = True
        out |= builtin.fingerprint() if self._built_in else {"weights": self.files.fingerprint}
        if self._adapter is not None:
            out["adapter"] = self._adapter.fingerprint
        if self._options.tokenizer is not None:
            out["tokenizer"] = self.tokenizer_files.fingerprint
        return out
