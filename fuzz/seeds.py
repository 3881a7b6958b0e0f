"""Small good documents of every form: what each target must take, and what every mutation begins with."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import pickle
import re
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from fuzz.mutations import LARGEST_BYTES, PICKLED_AS_JSON

STUDIES = ("mcq", "perplexity", "trajectories", "trust", "grounding")
SHARED = Path(__file__).parents[2] / "shared" / "data"
"""Real logs and data, where they lie beside the repository."""

EXAMPLES = Path(__file__).parent / "examples"
INSPECT_SAMPLE = "samples/right_epoch_1.json"

ARPA = """\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-1.2\t<unk>
-99\t<s>\t-0.3
-0.7\t</s>
-0.5\tthe\t-0.2
-0.6\tsky\t-0.1

\\2-grams:
-0.2\t<s> the
-0.3\tthe sky
-0.1\tsky </s>

\\end\\
"""
STEPS_CSV = """episode,step,timestamp,entropy_H_X,entropy_H_X_given_S,entropy_H_X_given_LS,trust_T
1,1,2026-01-05T10:00:00,1.9,1.5,0.4,0.2667
1,2,2026-01-05T10:00:01,1.8,,0.5,
2,1,2026-01-05T10:00:02,2.0,1.2,0.9,0.7273
2,2,2026-01-05T10:00:03,1.1,1.1,nan,n/a
"""
KNOWLEDGE = "# known\n- The fridge stands in the kitchen.\n1. Doors are brown.\n\nA red ball lies by the sofa.\n-\n"
COORDINATES = (
    '```referring\n"left arrow"\n```\n```grounding\n(100, 200)\n```',
    '{"point_2d": [311, 541], "label": "plus"}',
    "<think>maybe (3, 4)</think><answer>click(x=311.5, y=541)</answer>",
    "Top-left: (10, 20) to (30, 40)",
    "I cannot find the element. (-1, -1)",
)
VERBALIZED = {
    "executability": 0.95,
    "step1": {"north": 0.65, "south": 0.15, "west": 0.12, "east": 0.08},
    "step2": {"north": 0.25, "south": 0.25, "west": 0.25, "east": 0.25},
    "step3": {"up": 1.0, "down": 0.0, "left": 0.0, "right": 0.0},
    "reasoning": "the door is up",
}
ACTION = {"action": ["up"], "reasoning": "the door is there", "grounding": "Doors are brown.", "memory": ""}
REQUESTS = (
    "/run?path=run&q=room&sort=-confidence&page=2&f.correct=true",
    "/sample?path=run&id=q-00&f.margin=%3E0.5",
    "/picture?path=run&name=pictures/a.jpg",
    "/compare?a=run&b=..%2Frun",
    "/assets/viewer.js",
)
MODEL_NAMES = (
    "smollm2",
    "hf:base+adapter",
    "openai:gpt-4.1-mini",
    "ngram:a.arpa",
    "gemini:gemini-2.5-flash",
    "ocr",
)
ADDRESSES = (
    "images/a.png",
    "a.png",
    "memory://bucket/images/a.png",
    "s3://bucket/runs/x?versionId=1",
    "gs://b/ä/c.json",
)
TEMPLATES = ("Press {instruction} in {frame}.", "{question}\nAnswer:", "Q: {question} {0} {{x}}")


def tau2_document() -> dict[str, Any]:
    """Two simulations with the shapes of message that versions of τ²-bench write."""
    messages = [
        {"role": "assistant", "content": "Hi! How can I help you today?", "turn_idx": 0, "cost": 0.0},
        {"role": "user", "content": "Where is my bag?", "turn_idx": 1, "logprobs": _tokens(-0.1, -2.5)},
        {
            "role": "assistant",
            "content": None,
            "turn_idx": 2,
            "tool_calls": [{"id": "c", "name": "find", "arguments": {"bag": 1}}],
            "raw_data": {"choices": [{"index": 0, "message": {}, "logprobs": _tokens(-0.5)}]},
        },
        {"role": "tool", "content": "{}", "error": True, "turn_idx": 3},
        {"role": "assistant", "content": "In Lisbon.", "turn_idx": 4, "raw_data": {"logprobs": _tokens(-0.7, -0.01)}},
    ]
    runs = [
        {
            "id": f"sim_{number}",
            "task_id": f"task_{number}",
            "trial": 0,
            "termination_reason": "user_stop",
            "reward_info": {"reward": float(number)},
            "messages": messages,
            "review": {"errors": [{"turn_idx": 2, "source": "agent", "severity": "minor"}]},
        }
        for number in range(2)
    ]
    info = {"agent_info": {"llm": "gpt-x"}, "environment_info": {"domain_name": "airline"}}
    index = [{"id": "s1", "task_id": "task_0"}]
    return {"timestamp": "2025-11-06T23:54:05", "info": info, "tasks": [{"id": "task_0"}], "simulations": runs} | {
        "simulation_index": index
    }


def _tokens(*values: float) -> dict[str, Any]:
    top = [{"token": "In", "logprob": -0.5, "bytes": [73, 110]}, {"token": "At", "logprob": -1.5, "bytes": None}]
    return {
        "content": [{"token": f"t{i}", "logprob": v, "bytes": [116], "top_logprobs": top} for i, v in enumerate(values)]
    }


def chat_lines() -> list[dict[str, Any]]:
    reply = {"message": {"role": "assistant", "content": "In Lisbon."}, "logprobs": _tokens(-0.2, -0.4)}
    asked = [
        {"role": "system", "content": "Be."},
        {"role": "user", "content": [{"type": "text", "text": "Where?"}]},
    ]
    return [
        {"id": "a", "messages": asked, "response": {"model": "m", "choices": [reply]}, "reward": 1.0, "task_id": "t"},
        {"custom_id": "b", "messages": [*asked, reply["message"]], "success": False, "trial": 1},
        {"response": {"body": {"model": "m", "choices": [reply]}}},
    ]


QUESTIONS = [
    {"id": "q1", "question": "Which way?", "choices": ["north", "south"], "answer_index": 1, "group": "floor 1"},
    {"question": "How many?", "choices": ["one", "two", "three"], "answer_index": 0, "image_path": "a.png"},
]
SCREENSPOT = [
    {"img_filename": "a.png", "bbox": [10, 20, 30, 15], "instruction": "press plus", "data_type": "icon"},
    {"img_filename": "b.png", "bbox": [1, 2, 30, 40], "instruction": "open the menu", "data_source": "web"},
]
OSWORLD = [
    {"id": "o1", "image_path": "a.png", "image_size": [64, 48], "instruction": "close it", "box_type": "bbox",
     "box_coordinates": [4, 5, 10, 12], "GUI_types": ["Button"]},
    {"id": "o2", "image_path": "b.png", "image_size": [64, 48], "instruction": "the slider", "box_type": "polygon",
     "box_coordinates": [4, 5, 10, 12, 20, 30], "GUI_types": ["Slider"]},
    {"id": "o3", "image_path": "b.png", "image_size": [64, 48], "instruction": "no", "box_type": "refusal",
     "box_coordinates": [-1, -1, -1, -1]},
]  # fmt: skip
FLAT = [{"id": "f", "image": "a.png", "instruction": "press", "target": {"kind": "point", "coords": [311, 541]},
         "labels": {"user": ["1"]}}]  # fmt: skip
OPENAI_BODY = {
    "id": "x",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
                | {"logprobs": _tokens(-0.25)}],
    "usage": {"total_tokens": 7},
}  # fmt: skip
VLLM_BODY = {
    "choices": [
        {
            "text": "The sky is blue.",
            "prompt_token_ids": [1, 2, 3],
            "prompt_logprobs": [
                None,
                {"2": {"logprob": -8.5, "decoded_token": " sky is"}, "9": {"logprob": -0.5, "decoded_token": "!"}},
                {"3": {"logprob": -0.5, "rank": 1, "decoded_token": " blue"}},
            ],
            "logprobs": {"tokens": ["The", " sky is", " blue", "."]},
        }
    ],
    "usage": {"total_tokens": 4},
}
ECHO_BODY = {
    "choices": [
        {
            "logprobs": {
                "tokens": ["The", " sky is", " blue", "."],
                "token_logprobs": [None, -8.5, -0.5, -0.1],
                "top_logprobs": [None, {" sky is": -8.5}, {" blue": -0.5, " red": -1.5}, {".": -0.1}],
            }
        }
    ]
}
RECORDED = [
    {"tokens": ["In", " Li"], "logprobs": [-0.5, -0.25], "bytes": ["496e", None],
     "top": {"starts": [0, 2, 2], "tokens": ["In", "At"], "logprobs": [-0.5, -1.5]}},
    {"labels": ["up", "down"], "probabilities": [0.5, 0.25], "other": 0.25},
]  # fmt: skip
GEMINI = {
    "chosenCandidates": [{"token": "Hi", "logProbability": -0.25, "tokenId": 5}],
    "topCandidates": [{"candidates": [{"token": "Hi", "logProbability": -0.25}, {"token": "O", "logProbability": -2}]}],
}
GEMINI_BODY = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"text": "Hi"}, {"text": "hm", "thought": True}]},
            "finishReason": "STOP",
        }
        | {"logprobsResult": GEMINI}
    ],
    "usageMetadata": {"totalTokenCount": 7},
}
POLICIES = [
    {"type": "pi0fast", "resize_imgs_with_padding": [224, 224], "text_tokenizer_name": "google/paligemma-3b-pt-224"},
    {"type": "pi0_fast", "image_resolution": [224, 224], "interpolate_like_pi": True},
]


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def as_lines(values: list[Any]) -> bytes:
    return b"".join(as_json(value) + b"\n" for value in values)


@functools.cache
def png(kind: str = "PNG") -> bytes:
    """A small picture of Pillow's."""
    from PIL import Image

    out = io.BytesIO()
    Image.linear_gradient("L").resize((64, 48)).convert("RGB").save(out, kind)
    return out.getvalue()


def images() -> list[bytes]:
    return [png(kind) for kind in ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")]


def maps() -> list[bytes]:
    folder = files("howsure.data") / "maps"
    return [(folder / f"{name}.json").read_bytes() for name in ("empty", "fetch", "walls")]


def inspect_log() -> bytes:
    """A small log as Inspect itself wrote it."""
    return (EXAMPLES / "sums.eval").read_bytes()


def inspect_sample() -> bytes:
    with zipfile.ZipFile(EXAMPLES / "sums.eval") as log:
        return log.read(INSPECT_SAMPLE)


def example_run(study: str) -> bytes:
    """run.json, samples.jsonl and summary.json of a real small run, as one input."""
    return (EXAMPLES / f"{study}.run").read_bytes()


def runs() -> list[bytes]:
    return [example_run(study) for study in STUDIES]


def run_of_a_screen() -> list[bytes]:
    """A run of clicks on the picture that `png` gives, wherever that lies."""
    run = example_run("grounding")
    digests = set(re.findall(rb'"image_sha256":"([0-9a-f]{64})"', run))
    for digest in digests:
        run = run.replace(digest, hashlib.sha256(png()).hexdigest().encode())
    return [run]


def compared_runs() -> list[bytes]:
    return [example_run(study) for study in ("mcq", "perplexity", "grounding")]


def tau2() -> list[bytes]:
    """All shapes: everything in one, a list, a single simulation; and the beginning of a real log."""
    whole = tau2_document()
    made = [as_json(whole), as_json(whole["simulations"]), as_json(whole["simulations"][0])]
    real = sorted((SHARED / "tau2").glob("*mock*.json"))
    return made + [path.read_bytes() for path in real if path.stat().st_size < LARGEST_BYTES]


def clicks() -> list[bytes]:
    return [as_json(SCREENSPOT), as_json(OSWORLD), as_lines(FLAT), as_lines(json.loads(PICKLED_AS_JSON))]


def pickles() -> list[bytes]:
    return [pickle.dumps(json.loads(PICKLED_AS_JSON), protocol) for protocol in range(6)]


def texts(*values: str) -> list[bytes]:
    return [value.encode() for value in values]


def zipped(*values: str) -> list[bytes]:
    return [gzip.compress(value.encode(), mtime=0) for value in values]
