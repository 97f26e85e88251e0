"""An ensemble over one division of a prepared data set: every loss in every fold, then one model in one folder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from orcu import calibrators, losses
from orcu.boosting.objective import objective
from orcu.boosting.trees import BOOSTING, NETWORK, CrossFittedTrees, Growth, grow
from orcu.boosting.trees import LOSSES as TREE_LOSSES
from orcu.calibrators.pool import Pool, pool
from orcu.decisions.conformal import CrossConformalSets
from orcu.errors import InputError
from orcu.inputs import FloatArray, IntArray
from orcu.io.files import atomic_write
from orcu.losses.ensemble import MEMBERS
from orcu.model_selection import Fold, deal
from orcu.models.ensemble import EnsembleClassifier, perceptrons
from orcu.models.kinds import table_features, tree_columns
from orcu.training.config import ENSEMBLE
from orcu.training.cross_fitting import CrossFitted, out_of_fold, stacks, train_together
from orcu.training.ensemble import as_module
from orcu.training.model_file import TREES, save_model
from orcu.training.parallel import first_before_others, is_first
from orcu.training.run import Result, Run, RunConfig, Splits, claim

Progress = Callable[[str, int, int, float], None]
FOLDER = "members"
SETS = "sets.json"


class EnsembleRun:
    """Cross-fitted perceptrons of several losses, on a table or on the features of a frozen backbone; trees on a table.

    The rows of train and validation are dealt into folds; the test rows stay untouched.

    Args:
        run: the data, the division and the settings; of its network only the backbone is used.
        specs: the losses, as for `orcu.losses.create`.
        folds: how many.
        kinds: of members: "network", "boosting" or both.

    Raises:
        InputError: if a loss cannot be trained so, or there are fewer rows or subjects than folds.
    """

    def __init__(
        self, run: Run, specs: Sequence[Any] = MEMBERS, *, folds: int = 5, kinds: Sequence[str] = (NETWORK,)
    ) -> None:
        self.run, self.folds, self.kinds = run, folds, tuple(kinds)
        classes = len(run.plan.classes)
        self.criteria: dict[str, nn.Module] = {}
        for spec in specs if NETWORK in self.kinds else []:
            criterion = losses.create(spec, num_classes=classes, reduction="sum")
            if not stacks(criterion):
                raise InputError(f"loss: {spec} cannot be part of an ensemble; use --folds 1 --loss {spec}.")
            self.criteria[str(spec)] = criterion
        self.recipe = run.recipe.but(**(ENSEMBLE | dict(run.settings.recipe or {})))
        self.rows: IntArray = np.concatenate([run.splits["train"], run.splits["validation"]])
        subjects = run.prepared.manifest.column("subject")
        groups = None if subjects[0] is None else np.array([subjects[row] for row in self.rows])
        self.labels = run.labels[self.rows]
        self.dealt: list[Fold] = deal(self.labels, folds, groups=groups, seed=run.settings.seed)

    def spec(self) -> dict[str, Any]:
        """What the ensemble is made of, and the versions it runs with."""
        mine = self.run.spec()
        ensemble = {"loss": list(self.criteria), "folds": self.folds, "recipe": asdict(self.recipe)}
        if BOOSTING in self.kinds:
            ensemble |= {"trees": list(TREE_LOSSES), "growth": asdict(Growth())}
        return mine | {"spec": mine["spec"] | ensemble}

    def train(self, folder: Path, *, progress: Progress | None = None) -> tuple[Result, Pool]:
        """Train what is missing, weigh, and write the model.

        Writes a file in ``members`` for each loss when it is trained, and one in ``trees`` for each loss and fold of
        trees, so that a training that was cut off goes on; model.safetensors and model.json; predictions out of fold
        and of test.

        Args:
            folder: of the result.
            progress: told the loss, the epochs done (of trees the folds), how many there are at most, and the mean RPS
                of the rows that stop its networks.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with first_before_others():
            claim(folder, self.spec())
        x = self.run.matrix()
        fitting = x[self.rows]
        matrix = self._tree_matrix() if BOOSTING in self.kinds else None
        fitted: list[Any] = [] if matrix is None else self._grown(matrix[self.rows], folder, progress)
        fitted += [self._cross_fitted(name, fitting, folder, progress) for name in self.criteria]
        together = pool(fitted, self.dealt, self.labels)
        module = as_module(together)
        trees = [one for one in together.kept if isinstance(one, CrossFittedTrees)]
        plan = replace(
            self.run.plan,
            weights=[float(weight) for weight in module.weights],
            folds=self.folds,
            trees=[
                {
                    "name": one.name,
                    "library": one.library,
                    "weight": together.factors[one.name],
                    "start": one.start.tolist(),
                }
                for one in trees
            ],
        )
        settings = self.run.settings
        model = plan.build(weights=settings.weights, download=settings.download, seed=settings.seed)
        assert isinstance(model, EnsembleClassifier)  # noqa: S101 -- the plan has weights
        for mine, trained in zip(model.members, module.members, strict=True):
            mine.load_state_dict(trained.state_dict())
        test = self.run.splits["test"]
        said = [
            one.said(matrix[test] if matrix is not None and isinstance(one, CrossFittedTrees) else x[test])
            for one in together.kept
        ]
        predictions = {
            "out_of_fold": self.run.predictions(together.logits, self.rows, "out of fold"),
            "test": self.run.predictions(together.by_fold(np.stack(said)).mean(axis=0), test, "test"),
        }
        if is_first():
            save_model(folder, model, plan)
            for name, part in predictions.items():
                part.write(folder / f"{name}.parquet")
        return Result(folder, model, plan, [], predictions, self.recipe), together

    def _tree_matrix(self) -> FloatArray:
        """Every row as trees take it."""
        return tree_columns(self.run.plan).matrix(table_features(self.run.prepared.manifest))

    def _grown(self, matrix: FloatArray, folder: Path, progress: Progress | None) -> list[CrossFittedTrees]:
        """The trees of each loss: those that are kept, or new ones."""
        classes = len(self.run.plan.classes)
        grown = []
        for loss in TREE_LOSSES:
            name = f"{loss} trees"

            def told(done: int, total: int, name: str = name) -> None:
                if progress is not None:
                    progress(name, done, total, float("nan"))

            grown.append(
                grow(
                    objective(loss, num_classes=classes),
                    matrix,
                    tree_columns(self.run.plan),
                    self.labels,
                    self.dealt,
                    Growth(),
                    name=name,
                    seed=self.run.settings.seed,
                    folder=folder / TREES if is_first() else None,
                    progress=told,
                )
            )
        return grown

    def _cross_fitted(self, name: str, x: Tensor, folder: Path, progress: Progress | None) -> CrossFitted:
        """The networks of a loss: those that are kept, or new ones."""
        place = list(self.criteria).index(name)
        path, classes = folder / FOLDER / f"{place}.safetensors", len(self.run.plan.classes)
        hidden, seed = self.run.plan.hidden, self.run.settings.seed
        if path.exists():
            networks = perceptrons(self.folds, x.shape[1], classes, hidden=hidden, seed=seed)
            state = _loaded(path)
            for number, network in enumerate(networks):
                try:
                    network.load_state_dict({key: state[f"{number}.{key}"] for key in network.state_dict()})
                except (KeyError, RuntimeError):
                    raise InputError(f"{path}: is not whole; delete it, and its loss is trained again.") from None
            return CrossFitted(name, list(networks), out_of_fold(networks, x, self.dealt, classes), [])
        (fitted,) = train_together(
            {name: self.criteria[name]},
            x,
            self.labels,
            self.dealt,
            self.recipe,
            num_classes=classes,
            hidden=hidden,
            seed=seed + place,
            progress=None if progress is None else lambda done, total, rps: progress(name, done, total, rps),
        )
        if is_first():
            path.parent.mkdir(exist_ok=True)
            state = {
                f"{number}.{key}": value.contiguous()
                for number, network in enumerate(fitted.networks)
                for key, value in network.state_dict().items()
            }
            with atomic_write(path) as temporary:
                save_file(state, temporary)
        return fitted


def _loaded(path: Path) -> Mapping[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError):
        raise InputError(f"{path}: cannot be read; delete it, and its loss is trained again.") from None


def ensemble_run(
    prepared: Any,
    splits: Splits,
    settings: RunConfig,
    specs: Sequence[Any],
    *,
    folds: int,
    device: str,
    kinds: Sequence[str] = (NETWORK,),
) -> EnsembleRun:
    """An ensemble of these losses; ``settings.loss`` is not used."""
    run = Run(prepared, splits, replace(settings, loss=specs[0]), device=device)
    return EnsembleRun(run, specs, folds=folds, kinds=kinds)


def fitted_sets(together: Pool, y: IntArray, calibrator: calibrators.Calibrator) -> CrossConformalSets:
    """The prediction sets of an ensemble, from what it said out of fold."""
    probs = calibrator.predict_proba(together.logits)
    return CrossConformalSets().fit(probs, y, fold=together.fold)
