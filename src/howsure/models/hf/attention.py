"""Attention for packed rows, in the place where transformers lets others plug in theirs.

A packed batch has its contexts first, filled up to one length C, and the suffixes of all rows from place C on. The
mask holds only the suffixes' rows: [batch, 1, suffixes, C + suffixes]. So the contexts, which are nearly all of the
work, run as one plain causal attention (or both ways, in a prefix-LM) through the fastest kernel there is, without a
[length × length] mask in memory; only the few suffix tokens need one. Everything else (no mask, a whole mask, a step of
generation) goes to transformers' own attention.

Some vision towers run attention once for every image, or every window of an image. `images` does all pieces of one
length at once. They also cut patches out with a convolution whose step is its width, which is a matrix product;
convolutions of that shape are slow.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import linear, scaled_dot_product_attention

CAUSAL = "howsure_packed"
BOTH_WAYS = "howsure_packed_prefix_lm"
IMAGES = "howsure_flash_images"
"""transformers hands whole batches of images only to what has `flash` in its name."""


def register() -> None:
    """Make the three known to transformers; doing so again changes nothing."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    for name, function in ((CAUSAL, causal), (BOTH_WAYS, both_ways), (IMAGES, images)):
        AttentionInterface.register(name, function)
        AttentionMaskInterface.register(name, sdpa_mask)


def causal(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **rest: Any) -> tuple[Any, None]:
    return _packed(module, query, key, value, attention_mask, rest, True)


def both_ways(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **rest: Any) -> tuple[Any, None]:
    return _packed(module, query, key, value, attention_mask, rest, False)


def _packed(
    module: Any, query: Any, key: Any, value: Any, mask: Any, rest: dict[str, Any], is_causal: bool
) -> tuple[Any, None]:
    places = query.shape[2]
    if mask is None or mask.shape[2] == places or key.shape[2] != places:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        attended: tuple[Any, None] = sdpa_attention_forward(module, query, key, value, mask, **rest)
        return attended
    split, scale = places - mask.shape[2], rest.get("scaling")
    contexts = scaled_dot_product_attention(
        query[:, :, :split], key[:, :, :split], value[:, :, :split],
        is_causal=is_causal, scale=scale, enable_gqa=query.shape[1] != key.shape[1],
    )  # fmt: skip
    if not mask.shape[2]:
        return contexts.transpose(1, 2).contiguous(), None
    suffixes = _grouped(query[:, :, split:], key, value, mask, scale)
    return torch.cat([contexts, suffixes], dim=2).transpose(1, 2).contiguous(), None


def _grouped(query: Any, key: Any, value: Any, mask: Any, scale: float | None) -> Any:
    """Heads that share keys become more queries of one head, so that no key is copied."""
    batch, heads, places, width = query.shape
    groups = heads // key.shape[1]
    folded = query.reshape(batch, key.shape[1], groups * places, width)
    values = scaled_dot_product_attention(folded, key, value, attn_mask=mask.repeat(1, 1, groups, 1), scale=scale)
    return values.reshape(batch, heads, places, value.shape[-1])


class Patches(torch.nn.Module):  # type: ignore[misc]
    """A convolution over patches that do not overlap, as the matrix product that it is."""

    def __init__(self, convolution: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(convolution.weight.flatten(1), requires_grad=False)
        self.bias = convolution.bias

    def forward(self, patches: Any) -> Any:
        return linear(patches.flatten(1), self.weight, self.bias)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def images(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, *,
    cu_seq_lens_q: Any = None, max_length_q: int | None = None, **rest: Any,
) -> tuple[Any, None]:  # fmt: skip
    """[1, heads, patches, width] in pieces that end at `cu_seq_lens_q`; a piece sees itself only.

    Not compiled with the layer around it: every new set of image sizes would be compiled again.
    """
    scale, patches = rest.get("scaling"), query.shape[2]
    if cu_seq_lens_q is None:
        out = scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, scale=scale)
        return out.transpose(1, 2).contiguous(), None
    if max_length_q is not None and (cu_seq_lens_q.shape[0] - 1) * max_length_q == patches:
        return _pieces(query, key, value, int(max_length_q), scale), None
    out = torch.empty_like(query).transpose(1, 2)
    for length, places in _places(cu_seq_lens_q):
        out[:, places] = _pieces(query[:, :, places], key[:, :, places], value[:, :, places], length, scale)
    return out, None


def _pieces(query: Any, key: Any, value: Any, length: int, scale: float | None) -> Any:
    """Attention within consecutive pieces of one length; [1, patches, heads, width]."""
    heads, width = query.shape[1], query.shape[3]

    def split(tensor: Any) -> Any:
        return tensor[0].transpose(0, 1).reshape(-1, length, heads, width).transpose(1, 2)

    out = scaled_dot_product_attention(split(query), split(key), split(value), scale=scale)
    return out.transpose(1, 2).reshape(1, -1, heads, width)


def _places(ends: Any) -> list[tuple[int, Any]]:
    """For each length the places of all pieces that have it."""
    sizes = torch.diff(ends.cpu())
    starts = ends.cpu()[:-1]
    by_length = []
    for length in sorted(set(sizes.tolist())):
        begin = starts[sizes == length]
        by_length.append((length, (begin[:, None] + torch.arange(length)).reshape(-1).to(ends.device)))
    return by_length
