"""What a word is, wherever words are counted: bytes between white space.

White space is ASCII's, and NUL: all that KenLM takes for it, in training (which takes NUL, and neither form feed nor
vertical tab) or in asking (the other way round). A no-break space or an ideographic one belongs to the word that it
stands in, as there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def is_space(text: bytes) -> NDArray[np.bool_]:
    """For each byte whether it is white space: NUL, tab to carriage return (9 to 13), or a space."""
    values = np.frombuffer(text, dtype=np.uint8)
    spaces: NDArray[np.bool_] = (values == 0) | (values - np.uint8(9) < 5) | (values == 32)
    return spaces


def starts_of_words(text: bytes, *, after_space: bool = True) -> NDArray[np.int64]:
    """The places where words begin; `after_space` tells whether what came before the text ended in white space.

    >>> starts_of_words(b"so it  goes").tolist()
    [0, 3, 7]
    """
    space = is_space(text)
    before = np.concatenate([[after_space], space[:-1]]) if len(space) else space
    return np.flatnonzero(before & ~space).astype(np.int64)
