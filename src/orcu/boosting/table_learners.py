"""Base learners of a table by the name of their kind; networks are in `orcu.training.networks`."""

from collections.abc import Mapping, Sequence

from orcu.boosting.catboost import CatBoostLearner
from orcu.boosting.learner import BoostingConfig
from orcu.boosting.libraries import boosting_learner
from orcu.boosting.objective import Objective
from orcu.ensemble.forest import FORESTS, ForestLearner
from orcu.ensemble.kinds import BOOSTING, CATBOOST, FOREST, LINEAR
from orcu.ensemble.learner import FoldLearner
from orcu.ensemble.linear import LinearLearner


def table_learners(
    kind: str, *, objectives: Mapping[str, Objective], categorical: Sequence[int], seed: int
) -> list[FoldLearner]:
    """The base learners of a kind other than "network".

    Args:
        kind: "linear", "forest", "boosting" or "catboost".
        objectives: objectives of the boosted trees by the name of their loss.
        categorical: indices of the categorical columns.
        seed: seed of the learners.

    Example:
        >>> [learner.name for learner in table_learners("forest", objectives={}, categorical=(), seed=0)]
        ['extra trees', 'random forest']
    """
    columns = tuple(categorical)
    if kind == LINEAR:
        return [LinearLearner()]
    if kind == FOREST:
        return [ForestLearner(name, seed) for name in FORESTS]
    if kind == CATBOOST:
        return [CatBoostLearner(columns, seed)]
    return [
        boosting_learner(f"{loss} trees", BoostingConfig(), objective=function, categorical=columns, seed=seed)
        for loss, function in objectives.items()
    ]


def learner_kind(learner: FoldLearner) -> str:
    """The kind of a base learner, the inverse of `table_learners`."""
    kinds = {LinearLearner: LINEAR, ForestLearner: FOREST, CatBoostLearner: CATBOOST}
    return kinds.get(type(learner), BOOSTING)
