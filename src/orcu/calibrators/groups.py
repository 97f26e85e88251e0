"""Groups that differ: one map for all, and each group's turn, pulled to none as far as few rows ask for it."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize

from orcu import geometry
from orcu.calibrators.auto import ERRORS
from orcu.calibrators.base import CALIBRATORS, Calibrator, from_dict
from orcu.calibrators.chain import create
from orcu.calibrators.cross_validation import LogScores, splits
from orcu.calibrators.projection import logs, nearest_unimodal
from orcu.errors import CalibrationWarning, InputError
from orcu.inputs import FloatArray, IntArray, ObjectArray, as_texts, as_weight

PULLS = (float("inf"), 32.0, 8.0, 2.0)  # rows that the pull of a group to all others is worth
WIDEST_SHARPNESS, WIDEST_TILT = 3.0, 10.0
FEW = 5  # groups that are named in a sentence


@dataclass(frozen=True)
class Turns:
    """What sets groups apart: exp(u_g) log p_k + v_g t_k, with t from -1 at the lowest class to 1 at the highest.

    Attributes:
        pull: rows that the pull to no turn is worth; infinite where groups do not differ beyond chance.
        by_group: of each group u, the logarithm of its sharpness, and v, its tilt towards higher classes.

    Example:
        >>> turns = Turns(8.0, {"north": (np.log(2.0), 0.0)})
        >>> geometry.probs(turns.applied(np.log([[0.2, 0.8], [0.2, 0.8]]), np.array(["north", "south"]))).round(
        ...     2
        ... )
        array([[0.06, 0.94],
               [0.2 , 0.8 ]])
    """

    pull: float = float("inf")
    by_group: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_group)

    def applied(self, logits: FloatArray, group: ObjectArray) -> FloatArray:
        """The turned logits, shape (n, C); groups that are not known are not turned."""
        turns = np.array([self.by_group.get(name, (0.0, 0.0)) for name in group.tolist()]).reshape(-1, 2)
        return _turned(geometry.log_probs(logits), turns[:, 0], turns[:, 1])

    @classmethod
    def fitted(
        cls,
        logits: FloatArray,
        y: IntArray,
        weight: FloatArray,
        group: ObjectArray,
        *,
        fold: IntArray,
        subject: IntArray | None = None,
    ) -> Self:
        """The turns of the groups, from labelled rows.

        The pull is chosen by the log score of held-out folds, half a standard error towards one map for all.

        Args:
            logits: what is to be turned, shape (n, C).
            y: labels 0..C-1, shape (n,).
            weight: of each row.
            group: of each row.
            fold: of each row, 0..K-1; a row of -1 takes no part in choosing the pull.
            subject: of each row, whose rows err together; or ``None``.
        """
        if len(set(group.tolist())) < 2:
            return cls()
        log_probs = geometry.log_probs(logits)
        pull = _chosen_pull(log_probs, y, weight, group, fold, subject)
        return cls(pull, {} if np.isinf(pull) else _fitted_turns(log_probs, y, weight, group, pull))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fit for JSON: the pull, ``None`` for an infinite one, and the turns."""
        return {
            "pull": None if np.isinf(self.pull) else self.pull,
            "turns": {name: list(turn) for name, turn in self.by_group.items()},
        }

    @classmethod
    def of(cls, pull: float | None, turns: Mapping[str, Sequence[float]]) -> Self:
        """What `to_dict` gave.

        Raises:
            ValueError: if a number is not finite.
        """
        by_group = {str(name): (float(u), float(v)) for name, (u, v) in turns.items()}
        if not np.isfinite(list(by_group.values())).all():
            raise ValueError("a turn is not finite")
        return cls(float("inf") if pull is None else float(pull), by_group)

    def described(self, rows: str = "rows") -> str:
        """What was found, in a few words."""
        if not self:
            return "groups do not differ beyond chance: one map for all"
        return f"{len(self.by_group)} groups have a turn of their own, pulled to none as by {self.pull:g} {rows}"


def _turned(log_probs: FloatArray, sharpness: Any, tilt: Any) -> FloatArray:
    places = np.linspace(-1.0, 1.0, log_probs.shape[1])
    moved: FloatArray = np.exp(np.asarray(sharpness))[..., None] * log_probs + np.asarray(tilt)[..., None] * places
    return moved


def _chosen_pull(
    log_probs: FloatArray, y: IntArray, weight: FloatArray, group: ObjectArray, fold: IntArray, subject: IntArray | None
) -> float:
    """How much groups are pulled to all others: by the log score of held-out rows, in doubt to one map for all."""
    own = np.empty((len(PULLS), len(y)))
    for number, pull in enumerate(PULLS):
        for part in range(int(fold.max()) + 1):
            held, rest = fold == part, (fold != part) & (fold >= 0)
            known = _fitted_turns(log_probs[rest], y[rest], weight[rest], group[rest], pull)
            logs = geometry.log_probs(Turns(pull, known).applied(log_probs[held], group[held]))
            own[number, held] = -logs[np.arange(len(logs)), y[held]]
    judged = fold >= 0
    share = weight[judged] / weight[judged].sum()
    subjects = None if subject is None else subject[judged]
    return PULLS[LogScores(own[:, judged], share, subjects).simplest(ERRORS)]


def _fitted_turns(
    log_probs: FloatArray, y: IntArray, weight: FloatArray, group: ObjectArray, pull: float
) -> dict[str, tuple[float, float]]:
    """Each group's turn by penalised likelihood."""
    turns: dict[str, tuple[float, float]] = {}
    for name in [] if np.isinf(pull) else sorted(set(group.tolist())):
        mine = group == name
        logs, labels, own = log_probs[mine], y[mine], weight[mine]

        def cost(turn: FloatArray, logs: FloatArray = logs, labels: IntArray = labels, own: FloatArray = own) -> float:
            moved = geometry.log_probs(_turned(logs, turn[0], turn[1]))
            return -float(own @ moved[np.arange(len(labels)), labels]) + pull / 2 * float(turn @ turn)

        sharpness, tilt = minimize(cost, np.zeros(2), method="BFGS").x
        turns[name] = (
            float(np.clip(sharpness, -WIDEST_SHARPNESS, WIDEST_SHARPNESS)),
            float(np.clip(tilt, -WIDEST_TILT, WIDEST_TILT)),
        )
    return turns


@CALIBRATORS.register("grouped")
class GroupedCalibration(Calibrator):
    r"""One calibrator for all rows, then a turn for each group: sharper or flatter, higher or lower.

    A hospital, a scanner or a language on which the model is over-confident is mended without giving up what all rows
    tell together. With q the common map's distribution of a row of group g,

    .. math:: \hat p_k \propto q_k^{\exp(u_g)} \exp(v_g t_k), \quad t_k = 2k / (C - 1) - 1,

    u and v by likelihood, pulled to 0 as if by 32, 8 or 2 rows that ask for no turn; which, or none at all, is chosen
    by the log score of held-out fifths, half a standard error towards one map for all. A group that was not fitted on
    gets the common map. Rows that the common map makes unimodal stay unimodal.

    Without ``group=`` it is the common calibrator and nothing else.

    Args:
        calibrator: the common one, by name, or itself.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = -((np.arange(3) - rng.uniform(-0.5, 2.5, size=(800, 1))) ** 2)
        >>> y = (rng.random((800, 1)) > geometry.probs(z).cumsum(axis=1)[:, :-1]).sum(axis=1)
        >>> site = np.array(["north", "south"] * 400)
        >>> z[site == "north"] *= 4  # over-confident there
        >>> fitted = GroupedCalibration("temperature").fit(z, y, group=site)
        >>> {name: round(float(np.exp(u)), 2) for name, (u, v) in fitted.turns_.by_group.items()}
        {'north': 0.73, 'south': 2.4}
    """

    name = "grouped"
    weight_repeats = False  # the common calibrator shrinks by itself
    by_group = True
    fitted_: Calibrator
    turns_: Turns
    _group: ObjectArray | None = None  # of the rows while they are fitted

    def __init__(self, calibrator: Any = "auto") -> None:
        self.calibrator = calibrator

    def _common(self) -> Calibrator:
        """The common calibrator, not fitted."""
        if isinstance(self.calibrator, Calibrator):
            return type(self.calibrator)(**self.calibrator.get_params())
        return create(self.calibrator)

    def parameters(self, num_classes: int) -> int:
        """Of the common calibrator; turns are counted by their pull."""
        return max(1, self._common().parameters(num_classes))

    def fit(
        self,
        logits: Any = None,
        y: Any = None,
        *,
        probs: Any = None,
        weight: Any = None,
        ids: Any = None,
        subject: Any = None,
        group: Any = None,
    ) -> Self:
        """Learn the common map and the turns from held-out rows.

        Args:
            logits: shape (n, C), or ``None`` if ``probs`` is given.
            y: labels 0..C-1, shape (n,).
            probs: class probabilities in place of logits.
            weight: one non-negative weight per row.
            ids: one id per row, kept in ``fitted_on_``.
            subject: one per row; what is chosen is judged on rows of other subjects than it was fitted on.
            group: one per row, such as a hospital; ``None`` for no turns.

        Raises:
            InputError: if an argument cannot be used; the text names the row.

        Warns:
            CalibrationWarning: if rows are few or a class is missing.
        """
        names = None
        if group is not None:
            rows = len(probs if logits is None else logits)
            names = as_texts(group, rows=rows, name="group")
            if weight is not None:
                names = names[as_weight(weight, rows=rows) > 0]  # a row of no weight is no row
        self._group = names
        try:
            return super().fit(logits, y, probs=probs, weight=weight, ids=ids, subject=subject)
        finally:
            self._group = None

    def _is_as_published(self) -> bool:
        return True  # the common calibrator spreads its own share

    def _check(self, logits: FloatArray, y: IntArray) -> None:
        """The common calibrator checks for itself."""

    def _fit(self, logits: FloatArray, y: IntArray, weight: FloatArray) -> None:
        self.fitted_ = self._common().fit(logits, y, weight=weight, subject=self._subject)
        self.turns_ = Turns()
        if self._group is not None and len(y) > 1:
            fold = np.full(len(y), -1)
            for number, (_, held) in enumerate(splits(y, subject=self._subject)):
                fold[held] = number
            moved = self.fitted_.predict_logits(logits)
            self.turns_ = Turns.fitted(moved, y, weight, self._group, fold=fold, subject=self._subject)

    def predict_logits(self, logits: Any = None, *, probs: Any = None, group: Any = None) -> Any:
        """Calibrated logits, shape (n, C).

        Args:
            logits: shape (n, C), or ``None`` if ``probs`` is given.
            probs: class probabilities in place of logits.
            group: one per row; needed if there are turns.

        Raises:
            InputError: if it is not fitted, or was fitted for another number of classes, or groups are not named.
        """
        return self._apply(lambda values: self._turned(values, group), logits, probs)

    def predict_proba(self, logits: Any = None, *, probs: Any = None, group: Any = None) -> Any:
        """Calibrated probabilities, shape (n, C); as `predict_logits`."""
        return self._apply(lambda values: self._turned_probs(values, group), logits, probs)

    def _turned(self, logits: FloatArray, group: Any) -> FloatArray:
        if not self.turns_:
            return self._transform(logits)
        return logs(self._turned_probs(logits, group))

    def _turned_probs(self, logits: FloatArray, group: Any) -> FloatArray:
        if not self.turns_:
            return self._transform_probs(logits)
        if group is None:
            raise InputError(
                f"group: this calibrator has a turn for each of {len(self.turns_.by_group)} groups; name the column of "
                "groups: group= (--group)."
            )
        names = as_texts(group, rows=len(logits), name="group")
        strange = sorted(set(names.tolist()) - set(self.turns_.by_group))
        if strange:
            more = ", ..." if len(strange) > FEW else ""
            warnings.warn(
                f"groups that were not fitted on get the common map: {', '.join(strange[:FEW])}{more}.",
                CalibrationWarning,
                stacklevel=5,  # of who predicts
            )
        moved = self.fitted_.predict_logits(logits)
        turned = geometry.probs(self.turns_.applied(moved, names))
        unimodal = geometry.is_unimodal(geometry.probs(moved))
        return np.where(unimodal[:, None], nearest_unimodal(turned), turned)

    def _transform(self, logits: FloatArray) -> FloatArray:
        moved: FloatArray = self.fitted_.predict_logits(logits)
        return moved

    def _transform_probs(self, logits: FloatArray) -> FloatArray:
        probs: FloatArray = self.fitted_.predict_proba(logits)
        return probs

    def _learned(self) -> list[list[str]]:
        turns = [
            [f"turn of {name}", f"sharpness {np.exp(u):.3g}, tilt {v:+.3g}"]
            for name, (u, v) in self.turns_.by_group.items()
        ]
        return [*self.fitted_._learned(), *turns]

    @property
    def reason_(self) -> str:
        """What was chosen, in a sentence or two."""
        common = getattr(self.fitted_, "reason_", f"{self.fitted_.name}.")
        return f"{common} {self.turns_.described().capitalize()}."

    def to_dict(self) -> dict[str, Any]:
        """Options and learned state as plain data, fit for JSON; the common calibrator is told by name and options."""
        plain = super().to_dict()
        common = plain["state"]["calibrator"]
        return plain | {"options": {"calibrator": {"name": common["calibrator"], **common["options"]}}}

    def _state(self) -> dict[str, Any]:
        return {"calibrator": self.fitted_.to_dict(), **self.turns_.to_dict()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.fitted_ = from_dict(state["calibrator"])
        self.turns_ = Turns.of(state["pull"], state["turns"])
