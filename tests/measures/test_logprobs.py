"""What counts as a log-probability."""

import math

import numpy as np
import pytest

from howsure.errors import EvidenceError
from howsure.measures import check_logprobs


def test_zero_probability_and_rounding():
    np.testing.assert_array_equal(check_logprobs([-9999.0, -math.inf, 1e-7, -2.0]), [-math.inf, -math.inf, 0.0, -2.0])
    assert check_logprobs([]).shape == (0,)


def test_the_input_is_not_changed():
    given = np.array([-9999.0, 1e-9])
    check_logprobs(given)
    assert given.tolist() == [-9999.0, 1e-9]


@pytest.mark.parametrize(("value", "text"), [(math.nan, "NaN"), (0.01, "0.01"), (math.inf, "inf")])
def test_refused_with_value_and_place(value, text):
    with pytest.raises(EvidenceError, match=f"answer: {text} at token 2 is not a log-probability"):
        check_logprobs([-1.0, -2.0, value], "answer")
