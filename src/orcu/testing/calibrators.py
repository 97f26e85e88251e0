"""Contract of calibrators: distributions, tensors, JSON, scikit-learn conventions, weights, errors, degenerate data."""

import importlib.util
import json
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from orcu import calibrators, geometry, metrics
from orcu.calibrators.base import CALIBRATORS, Calibrator
from orcu.inputs import FloatArray, IntArray
from orcu.testing.contract import (
    Contract,
    Rule,
    expect,
    expect_close,
    expect_error,
    expect_finite,
    ordinal_sample,
    wrong_type,
)

NUM_CLASSES = 4
BASE = "The base class does this; define _fit, _transform, _state and _restore, and do not override fit or predict_*."
OPTIONS = "Options are keyword arguments of __init__, stored unchanged under their own names."


def check_calibrator(calibrator: str | Mapping[str, Any] | type[Calibrator], **options: Any) -> None:
    """Check the contract of calibrators.

    Args:
        calibrator: registered name, names joined by ``+``, table of a name and options, or class.
        options: options of the calibrator.

    Raises:
        ContractError: if rules are broken; the message has a line for each, with the numbers and how to fix it.
        InputError: if it is not a calibrator.

    Example:
        >>> check_calibrator("temperature")
    """
    _CalibratorContract(calibrator, options).check()


def calibrator_checks(
    calibrator: str | Mapping[str, Any] | type[Calibrator], **options: Any
) -> dict[str, Callable[[], None]]:
    """Return the rules that apply to a calibrator, by name; see `check_calibrator` for the arguments.

    Example:
        >>> "log likelihood improves" in calibrator_checks("projection")
        False
    """
    return _CalibratorContract(calibrator, options).checks()


def _sample(rows: int = 600, *, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Overconfident logits, with an inverse temperature of 2, and labels."""
    logits, y, _ = ordinal_sample(rows, NUM_CLASSES, seed=seed)
    return 2 * logits, y


class _CalibratorContract(Contract):
    def __init__(self, calibrator: Any, options: dict[str, Any]) -> None:
        self.make: Callable[[], Calibrator]
        if isinstance(calibrator, str | Mapping):
            spec = calibrator if isinstance(calibrator, str) else dict(calibrator)
            self.title, self.make = f"calibrator {calibrator!r}", partial(calibrators.create, spec, **options)
        elif isinstance(calibrator, type) and issubclass(calibrator, Calibrator):
            self.title, self.make = f"calibrator {calibrator.__name__}", partial(calibrator, **options)
        else:
            raise wrong_type("calibrator", "a registered name, a table", calibrator, Calibrator)
        self.has_parameters = self.make().n_parameters(NUM_CLASSES) > 0

    def fit(self, *rows: Any, **options: Any) -> Calibrator:
        return self.make().fit(*rows, **options)

    @Rule("Register the class with @CALIBRATORS.register(name), and set its attribute name to the same name.")
    def registered_name(self) -> None:
        cls = type(self.make())
        name = getattr(cls, "name", None)
        expect(name in CALIBRATORS.names(), f"the attribute name is {name!r}, which is not registered")
        expect(CALIBRATORS.get(str(name)) is cls, f"the name {name!r} is registered for another calibrator")

    @Rule("_transform returns finite logits (n, C) in float64; predict_proba is their softmax.")
    def valid_distributions(self) -> None:
        new, _ = _sample(2000, seed=1)
        calibrator = self.make()
        expect(calibrator.fit(*_sample(2000)) is calibrator, "fit does not return the calibrator itself")
        probs = calibrator.predict_proba(new)
        expect(probs.dtype == np.float64, f"probabilities are {probs.dtype}, expected float64")
        expect((probs >= 0).all(), f"the smallest probability is {probs.min():g}")
        expect_close(probs.sum(axis=1), np.ones(len(new)), "the sum of a row")
        softmax = geometry.probs(calibrator.predict_logits(new))
        expect_close(softmax, probs, "the softmax of predict_logits", rtol=0, atol=1e-12)

    @Rule("The sample is overconfident: fit by negative log-likelihood.", lambda contract: contract.has_parameters)
    def log_likelihood_improves(self) -> None:
        new, y = _sample(2000, seed=1)
        calibrated = self.fit(*_sample(2000)).predict_logits(new)
        before, after = metrics.nll(logits=new, y=y), metrics.nll(logits=calibrated, y=y)
        expect(
            after < before - 0.05, f"the NLL is {after:.4f} after and {before:.4f} before; expected at least 0.05 less"
        )

    @Rule(BASE, lambda contract: importlib.util.find_spec("torch") is not None)
    def torch_tensors(self) -> None:
        import torch

        z, y = _sample()
        expected = self.fit(z, y).predict_proba(z)
        for dtype in (torch.float32, torch.float64):
            tensor = torch.tensor(z, dtype=dtype)
            probs = self.fit(tensor, torch.tensor(y)).predict_proba(tensor)
            expect(isinstance(probs, torch.Tensor), f"a tensor gives {type(probs).__name__}")
            expect(probs.dtype == dtype, f"{dtype} gives {probs.dtype}")
            expect_close(probs, expected, f"the probability of {dtype} logits", rtol=1e-6, atol=1e-3)

    @Rule(BASE)
    def probabilities_as_input(self) -> None:
        z, y = _sample()
        probs, centered = geometry.probs(z), geometry.log_probs(z)
        calibrator = self.fit(probs=probs, y=y)
        expected = self.fit(centered, y).predict_proba(centered)
        expect_close(calibrator.predict_proba(probs=probs), expected, "the output for probs=", rtol=1e-6, atol=1e-8)
        expect_error(lambda: calibrator.fit(z, y, probs=probs), "logits.*probs", "logits together with probs")
        expect_error(lambda: calibrator.predict_proba(), "logits.*probs", "a call without logits or probs")

    @Rule("_state returns all fitted values as plain numbers and lists, _restore sets them. " + OPTIONS)
    def json_round_trip(self) -> None:
        z, y = _sample()
        ids = [f"case {row}" for row in range(len(y))]
        calibrator = self.fit(z, y, ids=ids)
        restored = calibrators.from_dict(json.loads(json.dumps(calibrator.to_dict())))
        with tempfile.TemporaryDirectory() as folder:
            calibrator.save(Path(folder, "c.json"))
            loaded = calibrators.load(Path(folder, "c.json"))
        expected = calibrator.predict_proba(z)
        expect(type(restored) is type(calibrator), f"from_dict returns a {type(restored).__name__}")
        expect_close(restored.predict_proba(z), expected, "the probability after from_dict", rtol=0, atol=0)
        expect_close(loaded.predict_proba(z), expected, "the probability after load", rtol=0, atol=0)
        expect(restored.fitted_on_ == calibrator.fitted_on_, "fitted_on_ differs after from_dict")
        expect(restored.fitted_on_.ids == tuple(ids), "the ids of fitted_on_ differ after from_dict")

    @Rule(OPTIONS)
    def scikit_learn_clone(self) -> None:
        from sklearn.base import clone

        calibrator = self.make()
        copy = clone(calibrator)
        expect(type(copy) is type(calibrator), f"the clone is a {type(copy).__name__}")
        expect(copy.get_params().keys() == calibrator.get_params().keys(), "the clone has other options")
        expect_error(lambda: copy.set_params(nonsense=1), "'nonsense'", "an unknown option")

    @Rule(
        "Do not override predict_*; names of fitted attributes end in an underscore.",
        lambda contract: contract.has_parameters,
    )
    def not_fitted_error(self) -> None:
        from sklearn.exceptions import NotFittedError
        from sklearn.utils import get_tags
        from sklearn.utils.validation import check_is_fitted

        calibrator = self.make()
        expect(get_tags(calibrator).requires_fit, "the scikit-learn tag requires_fit is False")
        for name, call in {
            "predict_proba": lambda: calibrator.predict_proba([[0.0, 1.0]]),
            "fitted_on_": lambda: calibrator.fitted_on_,
            "to_dict": calibrator.to_dict,
        }.items():
            expect_error(call, "not fitted", f"{name} before fit")
        try:
            check_is_fitted(calibrator)
        except NotFittedError:
            pass
        else:
            expect(False, "scikit-learn's check_is_fitted passes before fit")
        check_is_fitted(calibrator.fit(*_sample()))

    @Rule("_fit must not depend on an earlier fit; make random numbers depend on an option random_state.")
    def repeated_fit(self) -> None:
        z, y = _sample(300)
        refitted = self.fit(-z, y).fit(z, y).predict_proba(z)
        expect_close(refitted, self.fit(z, y).predict_proba(z), "the probability after a second fit", rtol=0, atol=0)

    @Rule("Do not modify the arrays that _fit and _transform receive.")
    def inputs_unchanged(self) -> None:
        z, y = _sample(300)
        inputs = {"logits": z, "labels": y, "weights": np.linspace(1, 2, 300)}
        before = {name: values.copy() for name, values in inputs.items()}
        self.fit(z, y, sample_weight=inputs["weights"]).predict_proba(z)
        for name, values in inputs.items():
            expect((values == before[name]).all(), f"the {name} were changed")

    @Rule("_transform maps each row by the fitted values, independently of the other rows.")
    def independent_rows(self) -> None:
        z, y = _sample(300)
        calibrator = self.fit(z, y)
        single = np.concatenate([calibrator.predict_proba(z[row : row + 1]) for row in range(20)])
        expect_close(
            single, calibrator.predict_proba(z[:20]), "the probability of a single row", rtol=1e-9, atol=1e-300
        )

    @Rule(
        "_fit must apply the sample weights; where a weight of 2 is not a repeated row, set frequency_weights = False.",
        lambda contract: contract.make().frequency_weights,
    )
    def weights_equal_repetition(self) -> None:
        z, y = _sample(400)
        weight = np.random.default_rng(0).integers(1, 4, size=400)
        repeated = np.repeat(np.arange(400), weight)

        def predict(*rows: Any, **weights: Any) -> FloatArray:
            calibrator = self.make()
            if "shrinkage" in calibrator.get_params():  # the prior counts rows, not weights
                calibrator.set_params(shrinkage=0.0)
            probs: FloatArray = calibrator.fit(*rows, **weights).predict_proba(z)
            share = calibrator.uniform_share_  # depends on the effective number of rows
            return (probs - share / NUM_CLASSES) / (1 - share)

        actual, expected = predict(z, y, sample_weight=weight.astype(float)), predict(z[repeated], y[repeated])
        expect_close(actual, expected, "a weighted probability", rtol=1e-6, atol=1e-4)

    @Rule("The base class removes rows of weight 0 and rescales the weights; do not sum raw weights.")
    def relative_weights(self) -> None:
        z, y = _sample(300)
        weight = np.where(np.arange(300) < 200, 8.0, 0.0)
        expected = self.fit(z[:200], y[:200]).predict_proba(z)
        expect_close(
            self.fit(z, y, sample_weight=weight).predict_proba(z), expected, "a weighted probability", atol=1e-9
        )

    @Rule("The base class expands votes to weighted rows; a wrapper with expands_votes = False passes y on unchanged.")
    def votes_of_several_raters(self) -> None:
        z, y = _sample(300)
        one_vote = np.eye(NUM_CLASSES)[y]
        expected = self.fit(z, y).predict_proba(z)
        expect_close(self.fit(z, one_vote).predict_proba(z), expected, "one vote per case", rtol=0, atol=0)
        counts = 2 * one_vote + one_vote[::-1]
        by_counts, by_shares = (self.fit(z, votes).predict_proba(z) for votes in (counts, counts / 3))
        expect_close(by_shares, by_counts, "shares instead of counts", rtol=1e-9, atol=1e-12)
        expect_error(lambda: self.fit(z, counts[:, :3]), "votes have 3 columns, expected 4", "votes with 3 columns")

    @Rule(BASE)
    def invalid_inputs(self) -> None:
        z, y = _sample()
        calibrator = self.fit(z, y)
        broken = z.copy()
        broken[3, 1] = np.nan
        expect_error(lambda: calibrator.predict_proba(z[:, :3]), "4 classes, got 3", "another number of classes")
        expect_error(lambda: self.fit(z, np.full(len(y), 4)), "row 0 has label 4", "a label that is not a class")
        expect_error(lambda: self.fit(broken, y), "row 3 has nan", "NaN in fit")
        expect_error(lambda: calibrator.predict_proba(broken), "row 3 has nan", "NaN in predict_proba")

    @Rule("Bound the fitted values: the output must be finite for few, separable or extreme rows.")
    def degenerate_data(self) -> None:
        z, y = _sample(40)
        cases = {
            "few rows": (z[:3], y[:3]),
            "a missing class": (z[y != 2], y[y != 2]),
            "a single class": (z, np.zeros_like(y)),
            "perfect separation": (50 * np.eye(NUM_CLASSES)[y], y),
            "equal logits": (np.zeros_like(z), y),
            "large logits": (1e4 * z, y),
        }
        for name, (logits, labels) in cases.items():
            probs = self.fit(logits, labels).predict_proba(z)
            expect_finite(probs, f"the probabilities after {name}")
            expect_close(probs.sum(axis=1), np.ones(len(z)), f"the sum of a row after {name}", rtol=1e-6)
