"""Outputs of shape (n, C, d1, ...) with a mask: judged as the rows of their positions."""

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


def test_a_tally_of_dense_outputs_is_that_of_their_rows():
    logits, y, mask = dense()
    weight = np.random.default_rng(1).random(y.shape)
    whole, dense_tally = Tally(3), Tally(3)
    rows, labels = rows_of(logits, y, mask)
    whole.update(logits=rows, y=labels, weight=weight[mask])
    dense_tally.update(logits=torch.from_numpy(logits), y=torch.from_numpy(y), weight=weight, mask=mask)
    assert dense_tally.rows == mask.sum()
    assert (dense_tally.vector() == whole.vector()).all()


def test_a_tally_takes_a_mask_of_rows_and_outputs_that_do_not_count():
    logits, y, mask = dense()
    mask[1] = False
    whole, of_rows, of_outputs = Tally(3), Tally(3), Tally(3)
    rows, labels = rows_of(logits, y, mask)
    whole.update(logits=rows, y=labels)
    of_rows.update(logits=np.moveaxis(logits, 1, -1).reshape(-1, 3), y=y.reshape(-1), mask=mask.reshape(-1))
    of_outputs.update(logits=logits, y=y, mask=mask)
    assert (of_rows.vector() == whole.vector()).all()
    assert (of_outputs.vector() == whole.vector()).all()


def test_what_a_mask_hides_is_not_looked_at():
    logits, y, mask = dense()
    hidden = np.where(mask[:, None], logits, np.nan)
    shown, kept = Tally(3), Tally(3)
    shown.update(logits=hidden, y=y, mask=mask)
    kept.update(logits=logits, y=y, mask=mask)
    assert (shown.vector() == kept.vector()).all()


def test_a_refused_output_leaves_the_tally_as_it_was():
    logits, y, mask = dense()
    tally = Tally(3)
    logits[3, 1] = np.nan
    with pytest.raises(InputError, match="logits: row 0 has nan"):
        tally.update(logits=logits, y=y, mask=mask)
    assert tally.rows == 0
    assert not tally.vector().any()


def test_dense_outputs_are_evaluated_as_rows_of_subjects():
    logits, y, mask = dense()
    group = np.where(np.arange(5) < 2, "left", "right") * np.ones(y.shape, dtype=object)
    evaluation = evaluate(logits=logits, y=y, mask=mask, group=group, bootstrap=50)
    rows, labels = rows_of(logits, y, mask)
    image = np.broadcast_to(np.arange(4)[:, None, None], y.shape)[mask]
    expected = evaluate(logits=rows, y=labels, group=group[mask], subject=image, bootstrap=50)
    assert evaluation.to_dict() == expected.to_dict()
    assert set(evaluation.groups) == {"left", "right"}


def test_a_group_may_be_given_per_output():
    logits, y, mask = dense()
    site = np.array(["north", "north", "south", "south"])
    evaluation = evaluate(logits=logits, y=y, mask=mask, group=site, bootstrap=20)
    alone = evaluate(logits=logits[:2], y=y[:2], mask=mask[:2], bootstrap=20)
    assert evaluation.groups["north"]["rps"].value == alone["rps"].value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros((4, 5, 6), dtype=int)}, r"y: expected shape \(4, 6, 5\), one value for each position"),
        ({"weight": np.ones(4)}, r"weight: expected shape \(4, 6, 5\)"),
        ({"mask": np.ones((4, 6), dtype=bool)}, r"mask: expected shape \(4, 6, 5\), as the labels, got \(4, 6\)"),
        ({"mask": np.ones((4, 6, 5))}, "mask: expected booleans, true where a position counts, got float64"),
        ({"mask": np.zeros((4, 6, 5), dtype=bool)}, "mask: no position counts"),
        ({"logits": np.zeros((4, 3, 0, 5))}, r"logits: expected shape \(n, C\) or \(n, C, d1, ...\)"),
        ({"probs": np.full((4, 3, 6, 5), 1 / 3)}, "probs, logits: give exactly one"),
    ],
)
@pytest.mark.parametrize("judge", [lambda **arguments: Tally(3).update(**arguments), evaluate])
def test_dense_outputs_that_do_not_fit_are_named(judge, change, message):
    logits, y, mask = dense()
    with pytest.raises(InputError, match=message):
        judge(**({"logits": logits, "y": y, "mask": mask} | change))


def test_a_tally_of_other_classes_refuses_dense_outputs():
    logits, y, mask = dense()
    with pytest.raises(InputError, match="the tally is for 4 classes, got 3"):
        Tally(4).update(logits=logits, y=y, mask=mask)


def test_predictions_and_a_mask_are_not_given_together():
    from orcu import Predictions

    with pytest.raises(InputError, match="as one object or as arrays, not both"):
        evaluate(Predictions(probs=[[0.5, 0.5]], y=[0]), mask=np.array([True]))
