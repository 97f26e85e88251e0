"""Tests of dense outputs of shape (n, C, d1, ...) with a mask."""

import numpy as np
import pytest
import torch

from orcu import Tally, evaluate
from orcu.errors import InputError


def dense(shape=(4, 3, 6, 5)):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=shape)
    y = rng.integers(shape[1], size=(shape[0], *shape[2:]))
    mask = rng.random(y.shape) < 0.7
    return logits, np.where(mask, y, 255), mask


def rows_of(logits, y, mask):
    return np.moveaxis(logits, 1, -1)[mask], y[mask]


def test_tally_update_dense_outputs_equals_their_rows():
    logits, y, mask = dense()
    weight = np.random.default_rng(1).random(y.shape)
    by_rows, dense_tally = Tally(3), Tally(3)
    rows, labels = rows_of(logits, y, mask)
    by_rows.update(logits=rows, y=labels, sample_weight=weight[mask])
    dense_tally.update(logits=torch.from_numpy(logits), y=torch.from_numpy(y), sample_weight=weight, mask=mask)
    assert dense_tally.rows == mask.sum()
    assert (dense_tally.vector() == by_rows.vector()).all()


def test_tally_update_with_mask_ignores_masked_rows_and_outputs():
    logits, y, mask = dense()
    mask[1] = False
    by_rows, of_rows, of_outputs = Tally(3), Tally(3), Tally(3)
    rows, labels = rows_of(logits, y, mask)
    by_rows.update(logits=rows, y=labels)
    of_rows.update(logits=np.moveaxis(logits, 1, -1).reshape(-1, 3), y=y.reshape(-1), mask=mask.reshape(-1))
    of_outputs.update(logits=logits, y=y, mask=mask)
    assert (of_rows.vector() == by_rows.vector()).all()
    assert (of_outputs.vector() == by_rows.vector()).all()


def test_tally_update_does_not_read_masked_values():
    logits, y, mask = dense()
    hidden = np.where(mask[:, None], logits, np.nan)
    masked, complete = Tally(3), Tally(3)
    masked.update(logits=hidden, y=y, mask=mask)
    complete.update(logits=logits, y=y, mask=mask)
    assert (masked.vector() == complete.vector()).all()


def test_tally_update_invalid_output_changes_nothing():
    logits, y, mask = dense()
    tally = Tally(3)
    logits[3, 1] = np.nan
    with pytest.raises(InputError, match="^logits: row 0 has nan"):
        tally.update(logits=logits, y=y, mask=mask)
    assert tally.rows == 0
    assert not tally.vector().any()


def test_evaluate_dense_outputs_equals_clustered_rows():
    logits, y, mask = dense()
    side = np.where(np.arange(5) < 2, "left", "right") * np.ones(y.shape, dtype=object)
    evaluation = evaluate(logits=logits, y=y, mask=mask, subgroup=side, n_resamples=50)
    rows, labels = rows_of(logits, y, mask)
    image = np.broadcast_to(np.arange(4)[:, None, None], y.shape)[mask]
    expected = evaluate(logits=rows, y=labels, subgroup=side[mask], cluster=image, n_resamples=50)
    assert evaluation.to_dict() == expected.to_dict()
    assert set(evaluation.subgroups) == {"left", "right"}


def test_evaluate_dense_subgroup_may_be_given_per_output():
    logits, y, mask = dense()
    site = np.array(["north", "north", "south", "south"])
    evaluation = evaluate(logits=logits, y=y, mask=mask, subgroup=site, n_resamples=50)
    alone = evaluate(logits=logits[:2], y=y[:2], mask=mask[:2], n_resamples=50)
    assert evaluation.subgroups["north"]["rps"].value == alone["rps"].value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros((4, 5, 6), dtype=int)}, r"^y: .*\(4, 6, 5\)"),
        ({"sample_weight": np.ones(4)}, r"^sample_weight: .*\(4, 6, 5\)"),
        ({"mask": np.ones((4, 6), dtype=bool)}, r"^mask: .*\(4, 6, 5\).*\(4, 6\)"),
        ({"mask": np.ones((4, 6, 5))}, "^mask: .*booleans.*float64"),
        ({"mask": np.zeros((4, 6, 5), dtype=bool)}, "^mask:"),
        ({"logits": np.zeros((4, 3, 0, 5))}, r"^logits: .*\(n, C\) or \(n, C, d1, ...\)"),
        ({"probs": np.full((4, 3, 6, 5), 1 / 3)}, "^probs, logits:"),
    ],
)
@pytest.mark.parametrize("function", [lambda **arguments: Tally(3).update(**arguments), evaluate])
def test_dense_arguments_of_wrong_shape_raise(function, change, message):
    logits, y, mask = dense()
    with pytest.raises(InputError, match=message):
        function(**({"logits": logits, "y": y, "mask": mask} | change))


def test_tally_update_dense_outputs_of_other_classes_raises():
    logits, y, mask = dense()
    with pytest.raises(InputError, match="^logits: .*4.*3"):
        Tally(4).update(logits=logits, y=y, mask=mask)


def test_evaluate_predictions_and_mask_raises():
    from orcu import Predictions

    with pytest.raises(InputError, match="^predictions:"):
        evaluate(Predictions(probs=[[0.5, 0.5]], y=[0]), mask=np.array([True]))
