"""Chat templates, which run in a process with limits: a text, a refusal, or the sentence that one does not end.

Its time here is a tenth of what a model's template has, since half of all loops that a mutation makes are long ones.
"""

from __future__ import annotations

from howsure.limited import LimitedFunction
from howsure.models import chat_templates
from howsure.models.contract import Message
from howsure.models.hf.conversations import render_chat

SECONDS, MEMORY_BYTES = 0.5, 512 * 2**20

TALK = (
    Message("system", "be kind"),
    Message("user", "what is 2 + 2?"),
    Message("tool", "4"),
    Message("assistant", "4"),
)
SEEDS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}",
    "{{ bos_token }}{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}"
    "{{ raise_exception('role ' + m.role) }}{% endif %}[{{ m.role[:4] }}] {{ m['content'][::2] }}{% endfor %}"
    "{% if add_generation_prompt %}>{% endif %}",
    "{% macro one(m) %}{{ m.content if m.content is string else m.content | tojson(indent=2) }}{% endmacro %}"
    "{% set ns = namespace(n=0) %}{% for m in messages[::-1] %}{% set ns.n = ns.n + 1 %}{{ one(m) ~ ns.n * 3 }}"
    "{% if loop.last %}{% break %}{% endif %}{% endfor %}{% for i in range(9) %}{{ '%02d' % i }}{% endfor %}",
)

chat_templates._render = LimitedFunction(
    "howsure.models.chat_templates:render", cpu_seconds=SECONDS, memory_bytes=MEMORY_BYTES
)


def chat_template(data: bytes) -> None:
    """A conversation with names in place of its contents, as it is read; and one of parts, to be answered."""
    template = data.decode("utf-8", "replace")

    def rendered(messages: object, begin_answer: bool = False) -> str:
        tokens = {"bos_token": "<s>", "eos_token": "</s>"}
        return chat_templates.apply("fuzzed", template, messages, begin_answer=begin_answer, special_tokens=tokens)

    render_chat(TALK, lambda given: rendered([{"role": m.role, "content": m.content} for m in given]))
    parts = [{"role": m.role, "content": [{"type": "image"}, {"type": "text", "text": m.content}]} for m in TALK[1::2]]
    rendered(parts, begin_answer=True)
