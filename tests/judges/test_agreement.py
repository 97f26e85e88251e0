"""`agreement` and `krippendorff_alpha`."""

import numpy as np
import pytest

from orcu.errors import InputError
from orcu.judges.agreement import agreement, krippendorff_alpha


def test_krippendorff_alpha_equals_published_values():
    # Krippendorff (2011), four observers of twelve units
    observers = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
        [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
    ]
    units = np.array(observers).T
    counts = np.array([[(unit == k).sum() for k in range(1, 6)] for unit in units], float)
    for level, value in (("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)):
        assert krippendorff_alpha(counts, level) == pytest.approx(value, abs=5e-4)
    with pytest.raises(InputError, match="^level_of_measurement: .*'ratio'"):
        krippendorff_alpha(counts, "ratio")


def test_agreement_of_two_raters_equals_cohen_kappa():
    from sklearn.metrics import cohen_kappa_score

    rng = np.random.default_rng(0)
    first = rng.integers(4, size=200)
    second = (first + rng.integers(-1, 2, size=200)).clip(0, 3)
    counts = np.eye(4)[first] + np.eye(4)[second]
    kappa = cohen_kappa_score(np.r_[first, second], np.r_[second, first], weights="quadratic")
    assert agreement(counts).qwk == pytest.approx(kappa)
    assert agreement(counts).exact == pytest.approx((first == second).mean())
    assert agreement(np.eye(4)) is None
    assert np.isnan(agreement(np.array([[2, 0], [2, 0]])).alpha)
