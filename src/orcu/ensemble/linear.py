"""Proportional odds as a base learner of an ensemble: linear in the encoded features, with a ridge penalty."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize

from orcu.ensemble.learner import NO_DEADLINE, Deadline, FoldLearner, TrainingData
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray, as_positive
from orcu.io.files import read_json, write_json
from orcu.kernels import cumulative
from orcu.model_selection import Fold
from orcu.preprocessing import Inputs
from orcu.raters.votes import Targets, weighted_rows

PENALTIES = (1000.0, 100.0, 10.0, 1.0)  # from the strongest to the weakest: each fit starts from the one before
PRIOR_ROWS = 0.5  # rows of each class added at score 0, so that thresholds next to a class without rows are finite
MAX_ITERATIONS = 200
MAX_ROWS = 20_000  # of a fit; a model of so few parameters gains little from more rows, taken at random


@dataclass(frozen=True)
class ProportionalOdds:
    """Coefficients beta, (F,), and thresholds theta, (C - 1,), of P(y <= k | x) = sigma(theta_k - x beta)."""

    coef: FloatArray
    thresholds: FloatArray

    def predict_log_proba(self, features: Any) -> FloatArray:
        """Log-probabilities of rows, (n, C)."""
        return cumulative.log_probs(np.asarray(features, dtype=np.float64) @ self.coef, self.thresholds)


def fit_proportional_odds(
    features: Any,
    y: Targets,
    num_classes: int,
    *,
    penalty: float,
    sample_weight: FloatArray | None = None,
    start: ProportionalOdds | None = None,
    deadline: Deadline = NO_DEADLINE,
) -> ProportionalOdds:
    """Minimise sum_i -log p(y_i | x_i) + penalty / 2 |beta|^2 in the coefficients and the ordered thresholds.

    Args:
        features: encoded rows, (n, F).
        y: labels 0..C-1, (n,); or shares of votes, (n, C), whose expected log-likelihood is maximised.
        num_classes: number of classes, C.
        penalty: strength of the ridge penalty, in rows.
        sample_weight: weight of each row, or ``None``.
        start: model to start from, or ``None``.
        deadline: time at which the iterations stop.

    Example:
        >>> x = np.linspace(-2, 2, 200)[:, None]
        >>> model = fit_proportional_odds(x, np.digitize(x[:, 0], [-1, 1]), 3, penalty=1.0)
        >>> np.exp(model.predict_log_proba(np.array([[0.0]]))).round(2).tolist()
        [[0.01, 0.99, 0.01]]
    """
    x = np.asarray(features, dtype=np.float64)
    width, prior = x.shape[1], np.full(num_classes, PRIOR_ROWS)
    case, label, row_weight = weighted_rows(y, sample_weight)
    labels = np.concatenate([label, np.arange(num_classes)])
    weight = np.concatenate([np.ones(len(label)) if row_weight is None else row_weight, prior])
    if start is None:
        below = np.cumsum(np.bincount(labels, weight, num_classes))[:-1] / weight.sum()
        start = ProportionalOdds(np.zeros(width), np.log(below / (1 - below)))

    def unpack(parameters: FloatArray) -> ProportionalOdds:
        steps = np.exp(parameters[width + 1 :])
        return ProportionalOdds(parameters[:width], np.cumsum(np.append(parameters[width], steps)))

    def cost(parameters: FloatArray) -> tuple[float, FloatArray]:
        model = unpack(parameters)
        scores = np.append((x @ model.coef)[case], np.zeros(num_classes))
        value, of_scores, of_thresholds = cumulative.log_loss_gradient(scores, model.thresholds, labels, weight)
        if y.ndim == 2:
            of_scores = np.bincount(case, of_scores[: len(label)], len(x)).astype(np.float64)
        of_later = np.cumsum(of_thresholds[::-1])[::-1]  # a step moves its threshold and all later ones
        gradient = np.concatenate(
            [
                x.T @ of_scores[: len(x)] + penalty * model.coef,
                of_later[:1],
                of_later[1:] * np.exp(parameters[width + 1 :]),
            ]
        )
        total = value + penalty / 2 * float(model.coef @ model.coef)
        return total / len(x), gradient / len(x)

    def stop_at_deadline(_: FloatArray) -> None:
        if deadline.is_over():
            raise StopIteration  # scipy returns the parameters of the last iteration

    first = np.concatenate([start.coef, start.thresholds[:1], np.log(np.diff(start.thresholds))])
    options = {"maxiter": MAX_ITERATIONS, "ftol": 1e-9, "gtol": 1e-6}
    optimum = minimize(cost, first, jac=True, method="L-BFGS-B", callback=stop_at_deadline, options=options)
    return unpack(optimum.x)


@dataclass(frozen=True)
class LinearLearner(FoldLearner):
    """Proportional odds; the penalty with the lowest log loss of the early-stopping rows is used in every fold.

    Args:
        name: name in the ensemble's weights.
        penalty: strength of the ridge penalty; set by `prepare`.
    """

    subfolder: ClassVar[str] = "linear"
    suffix = "json"
    name: str = "linear"
    penalty: float = PENALTIES[0]

    @property
    def preparing_steps(self) -> int:
        """Number of progress steps of `prepare` per fold."""
        return 1

    def prepare(
        self,
        data: TrainingData,
        folds: Sequence[Fold],
        path: Path | None,
        step: Callable[[], None],
        deadline: Deadline = NO_DEADLINE,
    ) -> Self:
        """Choose the penalty; one that is kept in ``path`` is read."""
        if path is not None and path.exists():
            for _ in folds:
                step()
            return replace(self, penalty=read_json(path, _read_penalty))
        losses = np.zeros(len(PENALTIES))
        for index, fold in enumerate(folds):
            if len(fold.early_stopping):
                losses += self._losses(data, fold, deadline.share(1 / (len(folds) - index)))
            step()
        penalty = PENALTIES[int(np.argmin(losses))]
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, {"penalty": penalty})
        return replace(self, penalty=penalty)

    def _losses(self, data: TrainingData, fold: Fold, deadline: Deadline) -> FloatArray:
        """Log loss of the early-stopping rows with each penalty; infinite for those after the deadline."""
        train, stopping = data[_sample(fold.train)], data[fold.early_stopping]
        case, label, weight = weighted_rows(stopping.y, stopping.sample_weight)
        weight = np.ones(len(label)) if weight is None else weight
        losses, model = np.full(len(PENALTIES), np.inf), None
        for index, penalty in enumerate(PENALTIES):
            if index and deadline.is_over():
                break
            model = fit_proportional_odds(
                train.inputs.features,
                train.y,
                data.num_classes,
                penalty=penalty,
                sample_weight=train.sample_weight,
                start=model,
                deadline=deadline,
            )
            log_probs = model.predict_log_proba(stopping.inputs.features)[case]
            losses[index] = -float(weight @ log_probs[np.arange(len(log_probs)), label])
        return losses

    def fit(self, data: TrainingData, fold: Fold, deadline: Deadline = NO_DEADLINE) -> ProportionalOdds:
        """Fit on all rows that the fold may train on, including the early-stopping rows."""
        rows = data[_sample(fold.all_training)]
        return fit_proportional_odds(
            rows.inputs.features,
            rows.y,
            data.num_classes,
            penalty=self.penalty,
            sample_weight=rows.sample_weight,
            deadline=deadline,
        )

    def predict_log_proba(self, model: ProportionalOdds, inputs: Inputs) -> FloatArray:
        """Log-probabilities of rows, (n, C)."""
        return model.predict_log_proba(inputs.features)

    def shape(self, model: ProportionalOdds) -> tuple[int, int]:
        """Number of features and of classes."""
        return len(model.coef), len(model.thresholds) + 1

    def save(self, model: ProportionalOdds, path: Path) -> None:
        """Write coefficients and thresholds as JSON."""
        write_json(path, {"coef": model.coef.tolist(), "thresholds": model.thresholds.tolist()})

    def load(self, path: Path) -> ProportionalOdds:
        """Read a model; `InputError` if the file is missing or damaged."""
        return read_json(path, _read_model)


def _sample(rows: IntArray) -> IntArray:
    """At most `MAX_ROWS` of the rows."""
    return rows if len(rows) <= MAX_ROWS else np.random.default_rng(0).choice(rows, MAX_ROWS, replace=False)


def _read_penalty(state: Any) -> float:
    if not isinstance(state, dict) or "penalty" not in state:
        raise InputError("penalty is missing; delete the file and train again.")
    return as_positive(state["penalty"], name="penalty")


def _read_model(state: Any) -> ProportionalOdds:
    try:
        coef, thresholds = (np.array(state[key], dtype=np.float64) for key in ("coef", "thresholds"))
    except (KeyError, TypeError, ValueError):
        raise InputError("expected numbers in coef and thresholds; train the model again.") from None
    valid = coef.ndim == thresholds.ndim == 1 and len(thresholds) > 0
    if not (valid and np.isfinite(coef).all() and np.isfinite(thresholds).all() and (np.diff(thresholds) > 0).all()):
        raise InputError("expected finite coefficients and increasing thresholds; train the model again.")
    return ProportionalOdds(coef, thresholds)
