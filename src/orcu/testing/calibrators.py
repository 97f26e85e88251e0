"""What every calibrator keeps: distributions, tensors, JSON, scikit-learn's manners, weights, errors, absurd data."""

import importlib.util
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orcu import calibrators, geometry, metrics
from orcu.calibrators.base import CALIBRATORS, Calibrator
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.testing.contract import Contract, close, demand, finite, refuses

NUM_CLASSES = 4


@dataclass(frozen=True)
class _Subject:
    title: str
    make: Callable[[], Calibrator]

    @property
    def fits(self) -> bool:
        """Whether there is anything to fit."""
        return self.make().parameters(NUM_CLASSES) > 0


CONTRACT: Contract[_Subject] = Contract()
BASE = "The base class does this; write _fit, _transform, _state and _restore, and leave fit and predict_* alone."
OPTIONS = "Options are keyword arguments of __init__, stored as they are under their own names."


def check_calibrator(calibrator: str | Mapping[str, Any] | type[Calibrator], **options: Any) -> None:
    """Run the contract of calibrators on one of yours.

    Args:
        calibrator: a registered name, names joined by ``+``, a table of a name and options, or the class.
        options: of the calibrator.

    Raises:
        ContractError: if it breaks rules; a line for each, with the numbers and how to mend it.
        InputError: if it is no calibrator.

    Example:
        >>> check_calibrator("temperature")
    """
    CONTRACT.check(_subject(calibrator, options))


def calibrator_checks(
    calibrator: str | Mapping[str, Any] | type[Calibrator], **options: Any
) -> dict[str, Callable[[], None]]:
    """The rules that concern a calibrator by name, for a test of each; see `check_calibrator` for the arguments.

    Example:
        >>> "it lowers the likelihood loss of overconfident rows" in calibrator_checks("projection")
        False
    """
    return CONTRACT.checks(_subject(calibrator, options))


def _subject(calibrator: Any, options: dict[str, Any]) -> _Subject:
    if isinstance(calibrator, str | Mapping):
        spec = calibrator if isinstance(calibrator, str) else dict(calibrator)
        subject = _Subject(f"calibrator {calibrator!r}", lambda: calibrators.create(spec, **options))
    elif isinstance(calibrator, type) and issubclass(calibrator, Calibrator):
        subject = _Subject(f"calibrator {calibrator.__name__}", lambda: calibrator(**options))
    else:
        kind = calibrator.__name__ if isinstance(calibrator, type) else f"an instance of {type(calibrator).__name__}"
        raise InputError(
            "calibrator: expected a registered name, a table, or a class that derives from "
            f"orcu.calibrators.Calibrator, got {kind}."
            + (" Hand in its class." if isinstance(calibrator, Calibrator) else "")
        )
    subject.make()
    return subject


def _sample(rows: int = 600, *, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Logits twice as sharp as they should be, and labels."""
    rng = np.random.default_rng(seed)
    center = rng.uniform(-0.5, NUM_CLASSES - 0.5, size=(rows, 1))
    logits = -((np.arange(NUM_CLASSES) - center) ** 2) + rng.normal(scale=0.5, size=(rows, NUM_CLASSES))
    y = (rng.random(rows)[:, None] > geometry.probs(logits).cumsum(axis=1)[:, :-1]).sum(axis=1)
    return 2 * logits, y


@CONTRACT.rule("Register the class by @CALIBRATORS.register(name), and repeat the name in its attribute name.")
def _it_is_registered_under_its_name(subject: _Subject) -> None:
    cls = type(subject.make())
    name = getattr(cls, "name", None)
    demand(name in CALIBRATORS.names(), f"its name is {name!r}, which is not registered")
    demand(CALIBRATORS.get(str(name)) is cls, f"its name is {name!r}, under which another calibrator is registered")


@CONTRACT.rule("_transform gives finite logits (n, C) in float64; their softmax is what predict_proba gives.")
def _it_gives_distributions(subject: _Subject) -> None:
    new, _ = _sample(2000, seed=1)
    calibrator = subject.make()
    demand(calibrator.fit(*_sample(2000)) is calibrator, "fit does not return the calibrator itself")
    probs = calibrator.predict_proba(new)
    demand(probs.dtype == np.float64, f"probabilities are {probs.dtype}, expected float64")
    demand((probs >= 0).all(), f"the smallest probability is {probs.min():g}")
    close(probs.sum(axis=1), np.ones(len(new)), "the sum of a row")
    close(geometry.probs(calibrator.predict_logits(new)), probs, "the softmax of predict_logits", rtol=0, atol=1e-12)


@CONTRACT.rule(
    "Rows are twice as sharp as they should be: fit on the negative log-likelihood.", lambda subject: subject.fits
)
def _it_lowers_the_likelihood_loss_of_overconfident_rows(subject: _Subject) -> None:
    new, y = _sample(2000, seed=1)
    moved = subject.make().fit(*_sample(2000)).predict_logits(new)
    before, after = metrics.nll(logits=new, y=y), metrics.nll(logits=moved, y=y)
    demand(after < before - 0.05, f"it is {after:.4f} after, {before:.4f} before; expected 0.05 less or better")


@CONTRACT.rule(BASE, lambda subject: importlib.util.find_spec("torch") is not None)
def _torch_in_torch_out(subject: _Subject) -> None:
    import torch

    z, y = _sample()
    expected = subject.make().fit(z, y).predict_proba(z)
    for dtype in (torch.float32, torch.float64):
        tensor = torch.tensor(z, dtype=dtype)
        probs = subject.make().fit(tensor, torch.tensor(y)).predict_proba(tensor)
        demand(isinstance(probs, torch.Tensor), f"a tensor gives {type(probs).__name__}")
        demand(probs.dtype == dtype, f"{dtype} gives {probs.dtype}")
        close(probs, expected, f"the probability of {dtype} logits", rtol=1e-6, atol=1e-3)


@CONTRACT.rule(BASE)
def _probabilities_are_given_by_name(subject: _Subject) -> None:
    z, y = _sample()
    probs, centered = geometry.probs(z), geometry.log_probs(z)
    calibrator = subject.make().fit(probs=probs, y=y)
    by_probs = calibrator.predict_proba(probs=probs)
    close(by_probs, subject.make().fit(centered, y).predict_proba(centered), "what probs= give", rtol=1e-6, atol=1e-8)
    refuses(lambda: calibrator.fit(z, y, probs=probs), "exactly one of the two", "logits together with probs")
    refuses(lambda: calibrator.predict_proba(), "exactly one of the two", "a call without logits or probs")


@CONTRACT.rule("_state gives all that was learned as plain numbers and lists, _restore takes it back. " + OPTIONS)
def _it_travels_as_json(subject: _Subject) -> None:
    z, y = _sample()
    ids = [f"case {row}" for row in range(len(y))]
    calibrator = subject.make().fit(z, y, ids=ids)
    again = calibrators.from_dict(json.loads(json.dumps(calibrator.to_dict())))
    demand(type(again) is type(calibrator), f"it comes back as {type(again).__name__}")
    close(again.predict_proba(z), calibrator.predict_proba(z), "the probability after JSON", rtol=0, atol=0)
    with tempfile.TemporaryDirectory() as folder:
        calibrator.save(Path(folder, "c.json"))
        loaded = calibrators.load(Path(folder, "c.json"))
    close(loaded.predict_proba(z), calibrator.predict_proba(z), "the probability after save and load", rtol=0, atol=0)
    demand(again.fitted_on_ == calibrator.fitted_on_, "the memory of the rows it was fitted on is another after JSON")
    demand(again.fitted_on_.ids == tuple(ids), "the ids it was fitted on are others after JSON")


@CONTRACT.rule(OPTIONS)
def _scikit_learn_can_clone_it(subject: _Subject) -> None:
    from sklearn.base import clone

    calibrator = subject.make()
    copy = clone(calibrator)
    demand(type(copy) is type(calibrator), f"the clone is a {type(copy).__name__}")
    demand(copy.get_params().keys() == calibrator.get_params().keys(), "the clone has other options")
    refuses(lambda: copy.set_params(nonsense=1), "no option 'nonsense'", "an option that does not exist")


@CONTRACT.rule("Do not override predict_*; what was learned ends in an underscore.", lambda subject: subject.fits)
def _what_has_parameters_asks_to_be_fitted(subject: _Subject) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import get_tags
    from sklearn.utils.validation import check_is_fitted

    calibrator = subject.make()
    demand(get_tags(calibrator).requires_fit, "scikit-learn is told that it need not be fitted")
    calls = {
        "predict_proba": lambda: calibrator.predict_proba([[0.0, 1.0]]),
        "fitted_on_": lambda: calibrator.fitted_on_,
        "to_dict": calibrator.to_dict,
    }
    for name, call in calls.items():
        refuses(call, "is not fitted; call fit", f"{name} before fit")
    try:
        check_is_fitted(calibrator)
    except NotFittedError:
        pass
    else:
        demand(False, "scikit-learn takes it for fitted before fit")
    check_is_fitted(calibrator.fit(*_sample()))


@CONTRACT.rule("Learn everything in _fit, and start from nothing there; seed what is random by an option.")
def _a_fit_does_not_depend_on_the_one_before(subject: _Subject) -> None:
    z, y = _sample(300)
    again = subject.make().fit(-z, y).fit(z, y).predict_proba(z)
    close(again, subject.make().fit(z, y).predict_proba(z), "the probability after a second fit", rtol=0, atol=0)


@CONTRACT.rule("Do not work in place on the arrays that _fit and _transform get.")
def _inputs_are_not_changed(subject: _Subject) -> None:
    z, y = _sample(300)
    weight = np.linspace(1, 2, 300)
    before = z.copy(), y.copy(), weight.copy()
    subject.make().fit(z, y, weight=weight).predict_proba(z)
    for name, one, kept in zip(("logits", "labels", "weights"), (z, y, weight), before, strict=True):
        demand((one == kept).all(), f"the {name} were changed")


@CONTRACT.rule("_transform maps each row by what was fitted, without a look at the rows beside it.")
def _a_calibrated_row_does_not_depend_on_its_company(subject: _Subject) -> None:
    z, y = _sample(300)
    calibrator = subject.make().fit(z, y)
    together = calibrator.predict_proba(z[:20])
    alone = np.concatenate([calibrator.predict_proba(z[row : row + 1]) for row in range(20)])
    close(alone, together, "the probability of a row alone", rtol=1e-9, atol=1e-300)


@CONTRACT.rule(
    "_fit must weigh each row by the weight it gets; one that cannot sets weight_repeats = False.",
    lambda subject: subject.make().weight_repeats,
)
def _weights_count_rows_several_times(subject: _Subject) -> None:
    z, y = _sample(400)
    weight = np.random.default_rng(0).integers(1, 4, size=400)
    again = np.repeat(np.arange(400), weight)

    def fitted(*rows: Any, **weights: Any) -> FloatArray:
        calibrator = subject.make()
        if "shrinkage" in calibrator.get_params():  # a pull is worth a number of rows, whatever they weigh
            calibrator.set_params(shrinkage=0.0)
        probs: FloatArray = calibrator.fit(*rows, **weights).predict_proba(z)
        share = calibrator.share_for_all_  # for which several rows of one weight count more than one that is heavy
        return (probs - share / NUM_CLASSES) / (1 - share)

    close(
        fitted(z, y, weight=weight.astype(float)),
        fitted(z[again], y[again]),
        "a weighted probability",
        rtol=1e-6,
        atol=1e-4,
    )


@CONTRACT.rule("The base class does this: leave rows without weight to it, and do not add up weights by yourself.")
def _only_proportions_of_weights_count_and_a_weight_of_0_is_no_row(subject: _Subject) -> None:
    z, y = _sample(300)
    weight = np.where(np.arange(300) < 200, 1.0, 0.0)
    expected = subject.make().fit(z[:200], y[:200]).predict_proba(z)
    close(subject.make().fit(z, y, weight=8 * weight).predict_proba(z), expected, "a weighted probability", atol=1e-9)


@CONTRACT.rule(BASE)
def _bad_input_is_named(subject: _Subject) -> None:
    z, y = _sample()
    fitted = subject.make().fit(z, y)
    broken = z.copy()
    broken[3, 1] = np.nan
    refuses(lambda: fitted.predict_proba(z[:, :3]), "fitted for 4 classes, got 3", "another number of classes")
    refuses(lambda: subject.make().fit(z, np.full(len(y), 4)), "row 0 has label 4", "a label that does not exist")
    refuses(lambda: subject.make().fit(broken, y), "row 3 has nan", "NaN in fit")
    refuses(lambda: fitted.predict_proba(broken), "row 3 has nan", "NaN in predict_proba")


@CONTRACT.rule("Bound what is learned: a map of few, separated or huge rows must stay finite.")
def _absurd_rows_give_no_nan(subject: _Subject) -> None:
    z, y = _sample(40)
    cases = {
        "few rows": (z[:3], y[:3]),
        "a class missing": (z[y != 2], y[y != 2]),
        "one class only": (z, np.zeros_like(y)),
        "perfect separation": (50 * np.eye(NUM_CLASSES)[y], y),
        "equal logits": (np.zeros_like(z), y),
        "large logits": (1e4 * z, y),
    }
    for name, (logits, labels) in cases.items():
        probs = subject.make().fit(logits, labels).predict_proba(z)
        finite(probs, f"the probabilities after {name}")
        close(probs.sum(axis=1), np.ones(len(z)), f"the sum of a row after {name}", rtol=1e-6)
