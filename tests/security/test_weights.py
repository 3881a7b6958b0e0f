"""Weights are safetensors that lie in the model's folder, and what is read of a folder is what is fingerprinted."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import howsure
from howsure.errors import HowsureError
from howsure.models import builtin
from howsure.models.builtin import CACHE_VARIABLE
from howsure.models.hf import files as model_files
from howsure.models.hf.files import ADAPTER, TOKENIZER, ModelFiles
from tiny_vision import build_pi0_fast

ITEMS = [("the sky", [" is blue"])]
SHARD = "model-00001-of-00001.safetensors"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    """A pipe without a writer would be waited for, for ever."""

    def ring(*_: Any) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def model(tiny_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_folder, tmp_path / "model"))


@pytest.fixture(scope="module")
def lora(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA adapter as peft saves it."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    folder = tmp_path_factory.mktemp("lora")
    wrapped = get_peft_model(
        AutoModelForCausalLM.from_pretrained(tiny_folder), LoraConfig(r=2, target_modules=["q_proj"])
    )
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_" in name:
                parameter.fill_(0.1)
    wrapped.save_pretrained(folder)
    return folder


@pytest.fixture
def adapter(lora: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(lora, tmp_path / "adapter"))


def change(path: Path, **entries: Any) -> None:
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | entries))


def pickle_instead(safetensors: Path, name: str) -> None:
    """The same tensors as torch pickles them."""
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(safetensors), safetensors.with_name(name))
    safetensors.unlink()


def index(folder: Path, target: str) -> None:
    """An index by which all of the tensors lie in `target`."""
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "pt") as file:
        weight_map = dict.fromkeys(file.keys(), target)
    change(folder / "model.safetensors.index.json", metadata={}, weight_map=weight_map)


def refusal(work: Callable[[], Any]) -> str:
    with pytest.raises(HowsureError) as caught:
        work()
    words = str(caught.value)
    assert "\n" not in words
    assert "Traceback" not in words
    return words


# -- pickles and indices ------------------------------------------------------------------------------------------


def test_a_pickled_adapter_is_refused_by_name(tiny_folder: Path, adapter: Path) -> None:
    pickle_instead(adapter / "adapter_model.safetensors", "adapter_model.bin")
    words = refusal(lambda: howsure.load(f"hf:{tiny_folder}+{adapter}"))
    assert "holds no adapter_model.safetensors; adapter_model.bin is a pickle" in words
    assert "save_pretrained" in words


@pytest.mark.parametrize(
    "target",
    ["pytorch_model.bin", "../base/model.safetensors", "{base}/model.safetensors", "sub/model.safetensors", ""],
)
def test_an_index_names_only_safetensors_of_its_folder(target: str, model: Path, tmp_path: Path) -> None:
    index(model, target.format(base=tmp_path / "base"))
    for folder in (tmp_path / "base", model / "sub"):
        folder.mkdir()
        shutil.copy(model / "model.safetensors", folder)
    pickle_instead(model / "model.safetensors", "pytorch_model.bin")
    words = refusal(lambda: howsure.load(f"hf:{model}"))
    assert "model.safetensors.index.json" in words
    assert "only safetensors files of the folder" in words


def test_shards_of_the_folder_are_read_and_fingerprinted(model: Path, tiny_folder: Path) -> None:
    index(model, SHARD)
    (model / "model.safetensors").rename(model / SHARD)
    opened = howsure.load(f"hf:{model}")
    assert opened.score(ITEMS) == howsure.load(f"hf:{tiny_folder}").score(ITEMS)
    before = ModelFiles(str(model)).fingerprint
    flip(model / SHARD, -5)
    assert ModelFiles(str(model)).fingerprint != before


def test_a_configuration_may_name_no_other_weights(model: Path) -> None:
    pickle_instead(model / "model.safetensors", "adapter_model.bin")
    change(model / "config.json", transformers_weights="adapter_model.bin")
    assert "take the entry transformers_weights out" in refusal(lambda: howsure.load(f"hf:{model}"))


def test_an_adapter_in_a_models_folder_is_not_added_unasked(model: Path, adapter: Path, tiny_folder: Path) -> None:
    for path in adapter.iterdir():
        shutil.copy(path, model)
    assert f"write hf:<base>+{model}" in refusal(lambda: howsure.load(f"hf:{model}", lazy=True))
    asked = howsure.load(f"hf:{tiny_folder}+{model}").score(ITEMS)
    assert asked == howsure.load(f"hf:{tiny_folder}+{adapter}").score(ITEMS)
    assert asked != howsure.load(f"hf:{tiny_folder}").score(ITEMS)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"peft_type": "IA3"}, "of type 'IA3', and only LORA"),
        ({"peft_type": None}, "of type None, and only LORA"),
        ({"megatron_config": {"a": 1}, "megatron_core": "this.antigravity"}, "names a module to be imported"),
        ({"layer_replication": [[0, 2]] * 10_000}, "repeats layers of its model"),
        ({"r": 1 << 40}, "says rank 1099511627776"),
        ({"rank_pattern": {"q_proj": 1 << 40}}, "says rank 1099511627776"),
    ],
)
def test_what_an_adapter_may_not_say(entries: dict[str, Any], words: str, tiny_folder: Path, adapter: Path) -> None:
    change(adapter / "adapter_config.json", **entries)
    assert words in refusal(lambda: howsure.load(f"hf:{tiny_folder}+{adapter}"))


REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}


@pytest.mark.parametrize("part", ["normalizer", "decoder"])
def test_a_tokenizer_that_makes_gigabytes_of_a_word_is_refused(part: str, model: Path) -> None:
    steps = "normalizers" if part == "normalizer" else "decoders"
    change(model / "tokenizer.json", **{part: {"type": "Sequence", steps: [REPLACE] * 4}})
    assert "replaces texts by ones that are up to 1000000000000 times as long" in refusal(
        lambda: howsure.load(f"hf:{model}")
    )


def test_a_tokenizer_may_replace_signs_as_honest_ones_do(model: Path) -> None:
    honest = [{"type": "Prepend", "prepend": "▁"}, REPLACE | {"pattern": {"String": " "}, "content": "▁"}]
    change(
        model / "tokenizer.json", normalizer={"type": "Sequence", "normalizers": [*honest, REPLACE | {"content": "½"}]}
    )
    assert howsure.load(f"hf:{model}").score(ITEMS)[0][0].tokens, "it is read with this tokenizer"


# -- configurations that lead elsewhere, or say too much --------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "entries"),
    [
        ("config.json", {"attn_implementation": "somebody/kernel"}),
        ("config.json", {"text_config": {"_attn_implementation": {"": "somebody/kernel"}}}),
        ("config.json", {"vision_config": {"use_pretrained_backbone": True, "backbone": "somebody/backbone"}}),
        ("processor_config.json", {"audio_tokenizer": {"audio_tokenizer_name_or_path": "somebody/model"}}),
        ("preprocessor_config.json", {"repo_path": "/etc", "class_info_file": "passwd"}),
        ("config.json", {"num_hidden_layers": 1 << 40}),
        ("config.json", {"vision_config": {"depths": [2, 1 << 40]}}),
    ],
)
def test_a_configuration_leads_nowhere_else(name: str, entries: dict[str, Any], model: Path) -> None:
    change(model / name, **entries)
    words = refusal(lambda: howsure.load(f"hf:{model}", lazy=True))
    assert f"{name} of {model}" in words
    assert "which is not opened" in words or "cannot be right" in words


def test_vocabularies_that_a_configuration_names_elsewhere_are_not_opened(model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    change(model / "tokenizer_config.json", vocab_file=str(tmp_path / "pipe"), gguf_file=str(tmp_path / "pipe"))
    written = json.loads((Path(ModelFiles(str(model)).path) / "tokenizer_config.json").read_text())
    assert "vocab_file" not in written
    assert "gguf_file" not in written
    assert howsure.load(f"hf:{model}").score(ITEMS)


@pytest.mark.parametrize("entry", ["vocab_size", "intermediate_size", "max_position_embeddings"])
def test_a_network_larger_than_its_weights_takes_no_memory(entry: str, model: Path) -> None:
    """Three lines of configuration took 14 GB and two minutes: transformers makes room, and fills it with noise."""
    change(model / "config.json", **{entry: 1 << 24})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if entry == "max_position_embeddings":
        assert howsure.load(f"hf:{model}").score(ITEMS)  # Llama keeps nothing of that size
    else:
        assert "describes a network of" in refusal(lambda: howsure.load(f"hf:{model}"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 << 10


def test_a_header_that_would_fill_the_memory_is_not_read(model: Path) -> None:
    """The library itself takes headers up to 100 MB, which become more than a gigabyte."""
    with (model / "model.safetensors").open("wb") as file:
        file.write((90_000_000).to_bytes(8, "little"))
        file.truncate(100_000_000)
    assert "90,000,000 bytes of header" in refusal(lambda: howsure.load(f"hf:{model}"))


# -- what lies in a folder ----------------------------------------------------------------------------------------

READ = [
    "config.json", "config.4.0.0.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json",
    "special_tokens_map.json", "chat_template.jinja", "additional_chat_templates/tool.jinja", "merges.txt",
    "preprocessor_config.json", "tokenizer.model", "model.safetensors", "model.safetensors.index.json", SHARD,
]  # fmt: skip


def prepared(model: Path, name: str) -> Path:
    """The path of a file that is read, with nothing there."""
    if name in (SHARD, "model.safetensors.index.json"):
        index(model, SHARD)
        (model / "model.safetensors").rename(model / SHARD)
    path = model / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    return path


@pytest.mark.parametrize("name", READ)
def test_a_pipe_is_refused_and_not_waited_for(name: str, model: Path) -> None:
    os.mkfifo(prepared(model, name))
    assert f"{name} is not a file but a pipe or a device" in refusal(lambda: howsure.load(f"hf:{model}"))


@pytest.mark.parametrize("name", READ)
def test_a_link_out_of_the_folder_is_refused(name: str, model: Path, tiny_folder: Path) -> None:
    prepared(model, name).symlink_to(tiny_folder / "config.json")
    assert "leads out of" in refusal(lambda: howsure.load(f"hf:{model}"))


@pytest.mark.parametrize("name", [name for name in READ if "index" in name or not name.endswith(".safetensors")])
def test_a_gigabyte_is_refused_before_it_is_read(name: str, model: Path) -> None:
    with prepared(model, name).open("wb") as file:
        file.truncate(1 << 30)
    assert "is larger than" in refusal(lambda: howsure.load(f"hf:{model}"))


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_the_same_of_adapters(name: str, tiny_folder: Path, adapter: Path) -> None:
    (adapter / name).unlink()
    os.mkfifo(adapter / name)
    assert "a pipe or a device" in refusal(lambda: howsure.load(f"hf:{tiny_folder}+{adapter}"))
    (adapter / name).unlink()
    (adapter / name).symlink_to(tiny_folder / "config.json")
    assert "leads out of" in refusal(lambda: howsure.load(f"hf:{tiny_folder}+{adapter}"))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_the_same_of_policies(name: str, tmp_path: Path) -> None:
    folder = build_pi0_fast(tmp_path / "policy")
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    assert "leads out of" in refusal(lambda: howsure.load(f"lerobot:{folder}"))


def test_other_files_are_not_looked_at(model: Path, tiny_folder: Path) -> None:
    for name in ("README.md", "pytorch_model.bin", "training_args.bin", "optimizer.pt"):
        os.mkfifo(model / name)
    opened = howsure.load(f"hf:{model}")
    assert opened.score(ITEMS) == howsure.load(f"hf:{tiny_folder}").score(ITEMS)
    assert opened.fingerprint() == howsure.load(f"hf:{tiny_folder}", lazy=True).fingerprint()


def test_a_folder_of_a_tokenizer_alone(model: Path, tiny_folder: Path) -> None:
    for name in ("config.json", "model.safetensors", "generation_config.json"):
        (model / name).unlink()
    opened = howsure.load(f"hf:{tiny_folder}", tokenizer=str(model))
    assert opened.score(ITEMS)
    assert opened.fingerprint()["tokenizer"].startswith("sha256:")
    os.mkfifo(model / "vocab.json")
    assert "a pipe or a device" in refusal(lambda: howsure.load(f"hf:{tiny_folder}", tokenizer=str(model)))


def test_the_newest_checkpoint_lies_in_its_folder(tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "training" / "checkpoints").mkdir(parents=True)
    (tmp_path / "training" / "checkpoints" / "last").symlink_to(build_pi0_fast(tmp_path / "policy").parent)
    (tmp_path / "policy").rename(tmp_path / "pretrained_model")
    assert "leads out of" in refusal(lambda: howsure.load(f"lerobot:{tmp_path / 'training'}", lazy=True))
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "checkpoint-7").symlink_to(tiny_folder)
    assert "leads out of" in refusal(lambda: howsure.load(f"hf:{tmp_path / 'outputs'}", lazy=True))


def test_code_that_was_asked_for_still_runs(model: Path, tiny_folder: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    (model / "modeling_own.py").write_text(
        "from transformers import LlamaForCausalLM\nclass Own(LlamaForCausalLM):\n    pass\n"
    )
    change(model / "config.json", auto_map={"AutoModelForCausalLM": "modeling_own.Own"})
    opened = howsure.load(f"hf:{model}", trust_remote_code=True)
    assert type(opened.network).__name__ == "Own"
    assert opened.score(ITEMS) == howsure.load(f"hf:{tiny_folder}").score(ITEMS)
    before = opened.fingerprint()
    with (model / "modeling_own.py").open("a") as file:
        file.write("# other code\n")
    assert howsure.load(f"hf:{model}", trust_remote_code=True, lazy=True).fingerprint() != before


# -- fingerprints -------------------------------------------------------------------------------------------------


def flip(path: Path, at: int) -> None:
    """One byte changed; from the end where `at` is below zero."""
    with path.open("r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def test_weights_that_differ_in_the_middle_have_two_fingerprints(model: Path) -> None:
    """Only the first and the last MiB counted: a fine-tuning of layers in between gave the same fingerprint."""
    with (model / "model.safetensors").open("ab") as file:
        file.truncate(4 << 20)
    before = ModelFiles(str(model)).fingerprint
    flip(model / "model.safetensors", 2 << 20)
    assert ModelFiles(str(model)).fingerprint != before


def test_of_very_large_weights_evenly_spaced_pieces_count(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "HASHED_BYTES", 1 << 20)
    with (model / "model.safetensors").open("ab") as file:
        file.truncate(4 << 20)
    fingerprints = {ModelFiles(str(model)).fingerprint}
    files = len(os.listdir(ModelFiles(str(model)).lay_out_weights()))
    for start, length in model_files._pieces(4 << 20, (1 << 20) // files // model_files.PIECE_BYTES):
        flip(model / "model.safetensors", start + length - 1)
        fingerprints.add(ModelFiles(str(model)).fingerprint)
    assert len(fingerprints) == 1 + (1 << 20) // files // model_files.PIECE_BYTES >= 3


def test_a_small_folder_keeps_its_fingerprint(model: Path) -> None:
    """As runs recorded it before, so that they are resumed."""
    digest = hashlib.sha256()
    for path in sorted(model.iterdir()):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    assert ModelFiles(str(model)).fingerprint == f"sha256:{digest.hexdigest()}"


def test_two_adapters_have_two_fingerprints(adapter: Path) -> None:
    before = ModelFiles(str(adapter), ADAPTER).fingerprint
    flip(adapter / "adapter_model.safetensors", -2)
    assert ModelFiles(str(adapter), ADAPTER).fingerprint != before
    pickle_instead(adapter / "adapter_model.safetensors", "adapter_model.bin")
    assert "is a pickle" in refusal(lambda: ModelFiles(str(adapter), ADAPTER).fingerprint)


@pytest.mark.parametrize(
    "name", ["merges.txt", "tokenizer.model", "qwen.tiktoken", "additional_chat_templates/a.jinja"]
)
def test_every_file_that_is_read_is_fingerprinted(name: str, model: Path) -> None:
    before = ModelFiles(str(model), TOKENIZER).fingerprint
    prepared(model, name).write_text("a b\n")
    after = ModelFiles(str(model), TOKENIZER).fingerprint
    prepared(model, name).write_text("a c\n")
    assert len({before, after, ModelFiles(str(model), TOKENIZER).fingerprint}) == 3


# -- the Hub ------------------------------------------------------------------------------------------------------


def snapshot(cache: Path, source: Path, name: str = "org/tiny") -> Path:
    """A folder as the Hub's client keeps it: links into a folder of blobs."""
    model = cache / f"models--{name.replace('/', '--')}"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(COMMIT)
    (model / "blobs").mkdir()
    folder = model / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    for i, path in enumerate(sorted(source.iterdir())):
        shutil.copy(path, model / "blobs" / f"blob{i}")
        (folder / path.name).symlink_to(f"../../blobs/blob{i}")
    return folder


@pytest.fixture
def hub(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Hub's cache with one model in it, and no Hub."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return snapshot(tmp_path / "hub", tiny_folder)


def test_a_snapshot_of_the_hub_is_read_by_name_and_as_a_folder(hub: Path, tiny_folder: Path) -> None:
    named, folder = howsure.load("hf:org/tiny"), howsure.load(f"hf:{hub}")
    assert named.source == "org/tiny"
    assert named.fingerprint()["weights"] == f"hub:{COMMIT}"
    expected = howsure.load(f"hf:{tiny_folder}")
    assert named.score(ITEMS) == folder.score(ITEMS) == expected.score(ITEMS)
    assert folder.fingerprint() == expected.fingerprint()


@pytest.mark.parametrize("target", ["pytorch_model.bin", "../../../../base/model.safetensors"])
def test_the_same_rule_for_what_was_fetched(target: str, hub: Path) -> None:
    index(hub, target)
    (hub / "model.safetensors").unlink()
    assert "only safetensors files of the folder" in refusal(lambda: howsure.load("hf:org/tiny"))
    (hub / "model.safetensors.index.json").unlink()
    assert "holds no model.safetensors" in refusal(lambda: howsure.load("hf:org/tiny"))


def test_a_link_out_of_a_snapshots_model_is_refused(hub: Path, tiny_folder: Path) -> None:
    (hub / "tokenizer.json").unlink()
    (hub / "tokenizer.json").symlink_to(tiny_folder / "tokenizer.json")
    assert "leads out of" in refusal(lambda: howsure.load("hf:org/tiny"))


def test_adapters_by_name(hub: Path, lora: Path, adapter: Path, tmp_path: Path) -> None:
    kept = snapshot(tmp_path / "hub", lora, "org/lora")
    tuned = howsure.load("hf:org/tiny+org/lora")
    assert tuned.fingerprint()["adapter"] == f"hub:{COMMIT}"
    assert tuned.score(ITEMS) == howsure.load(f"hf:org/tiny+{adapter}").score(ITEMS)
    assert "write hf:" in refusal(lambda: howsure.load("hf:org/lora", lazy=True))
    pickle_instead(kept / "adapter_model.safetensors", "adapter_model.bin")
    assert "adapter_model.bin is a pickle" in refusal(lambda: howsure.load("hf:org/tiny+org/lora"))


class Hub(http.server.BaseHTTPRequestHandler):
    """As much of the Hub as its client asks for; `asked` holds the paths."""

    folder: Path
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.asked.append(path)
        names = sorted(path.name for path in self.folder.iterdir())
        if path.startswith("/api/models/org/tiny/tree/"):
            content = json.dumps([{"type": "file", "path": name, "size": 1, "oid": name} for name in names]).encode()
        elif path.startswith("/api/models/org/tiny"):
            content = json.dumps({"id": "org/tiny", "sha": COMMIT, "siblings": [], "tags": []}).encode()
        else:
            content = (self.folder / Path(path).name).read_bytes() if Path(path).name in names else b"{}"
        self.send_response(200)
        headers = {"Content-Length": len(content), "X-Repo-Commit": COMMIT, "ETag": f'"{Path(path).name}"'}
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def test_nothing_else_is_fetched(model: Path, tmp_path: Path) -> None:
    for name in ("pytorch_model.bin", "modeling_own.py", "README.md", "training_args.bin"):
        (model / name).write_bytes(b"not to be fetched")
    Hub.folder = model
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    code = f"import howsure; print(howsure.load('hf:org/tiny').score({ITEMS!r})[0][0].logprobs.tolist())"
    places = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=os.environ | places, capture_output=True, text=True, check=False
    )
    server.shutdown()
    assert json.loads(done.stdout) == howsure.load(f"hf:{model}").score(ITEMS)[0][0].logprobs.tolist(), done.stderr
    fetched = {Path(path).name for path in Hub.asked if "/resolve/" in path}
    assert fetched == {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"
    }  # fmt: skip


# -- the built-in model -------------------------------------------------------------------------------------------


@pytest.fixture
def converted(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The built-in model's place in the cache, with a tiny model for its GGUF's content."""
    gguf = tmp_path / "cache" / "smollm2" / Path(builtin.GGUF_MEMBER).name
    gguf.parent.mkdir(parents=True)
    gguf.write_bytes(b"GGUF")

    def convert(_: Path, folder: Path) -> None:
        shutil.copytree(tiny_folder, folder, dirs_exist_ok=True)

    sha256 = hashlib.sha256(b"GGUF").hexdigest()
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(builtin, "GGUF_SHA256", sha256)
    monkeypatch.setattr(builtin, "WEIGHTS_SHA256", builtin.sha256_of(tiny_folder / "model.safetensors"))
    monkeypatch.setattr(builtin, "_convert", convert)
    return builtin.model_folder()


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json", builtin.CHECKSUMS])
def test_a_damaged_conversion_is_made_anew(name: str, converted: Path) -> None:
    expected = howsure.load("smollm2").score(ITEMS)
    flip(converted / name, (converted / name).stat().st_size // 2)
    said: list[str] = []
    assert howsure.load("smollm2", announce=said.append).score(ITEMS) == expected
    assert any("converting SmolLM2" in one for one in said)
    said.clear()
    assert howsure.load("smollm2", announce=said.append).score(ITEMS) == expected
    assert not said


def test_a_conversion_with_other_weights_is_refused(converted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(converted)
    monkeypatch.setattr(builtin, "WEIGHTS_SHA256", "0" * 64)
    assert "reads other weights out of SmolLM2's GGUF" in refusal(builtin.model_folder)
    assert not converted.exists()


def test_a_pipe_in_the_cache_is_not_waited_for(converted: Path) -> None:
    (converted / "config.json").unlink()
    os.mkfifo(converted / "config.json")
    assert howsure.load("smollm2").score(ITEMS)


@pytest.mark.real_model
def test_the_built_in_model_is_the_one_that_is_pinned() -> None:
    assert builtin.sha256_of(builtin.model_folder() / builtin.WEIGHTS) == builtin.WEIGHTS_SHA256
