"""Assertions that the rules of contracts use."""

import pytest

from orcu.testing.contract import ContractError, expect_close


def test_expect_close_names_the_position_and_both_numbers():
    expect_close([1.0, float("nan")], [1.0, float("nan")], "the loss")
    with pytest.raises(
        ContractError, match=r"^the doubled loss is 2 at \[1\], expected 2.5 \(1 of 2 numbers differ\)$"
    ):
        expect_close([1.0, 2.0], [1.0, 2.5], "the doubled loss")
