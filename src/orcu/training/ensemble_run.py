"""An ensemble on one split of a prepared data set, trained into a folder."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from orcu import losses
from orcu.boosting.learner import BoostingConfig, BoostingLearner
from orcu.boosting.objective import objective
from orcu.boosting.table_learners import learner_kind, table_learners
from orcu.data.base import TABLE
from orcu.defaults import CV, NETWORK_LOSSES
from orcu.ensemble.ensemble import Ensemble, fit_ensemble
from orcu.ensemble.kinds import BOOSTING, NETWORK, PRESETS, Preset
from orcu.ensemble.learner import BaseLearner, CrossFitted, FoldLearner, Progress, TrainingData
from orcu.errors import InputError
from orcu.inputs import IntArray
from orcu.model_selection import cross_fit_folds, merge_groups
from orcu.models.ensemble import EnsembleClassifier
from orcu.models.kinds import table_features
from orcu.preprocessing import Inputs, TableEncoder
from orcu.raters.votes import grades
from orcu.training.config import ENSEMBLE
from orcu.training.model_file import check_members, save_weights, write_config
from orcu.training.networks import PerceptronLearner, as_module, is_batchable, network_members
from orcu.training.parallel import first_before_others, is_first
from orcu.training.run import Result, Run, claim, row_copies


class EnsembleRun:
    """Cross-fitted perceptrons of several losses on a table or on features of a frozen backbone; more on a table.

    The rows of train and validation are split into cross-fitting folds; the test rows are not used.

    Args:
        run: data, splits and settings; only the backbone of its network is used.
        loss: losses of the perceptrons, as for `orcu.losses.create`.
        cv: number of folds.
        estimators: names of the base learners, as for `OrdinalClassifier`.
        preset: losses of boosted trees.

    Raises:
        InputError: if a loss cannot be used in an ensemble, or there are fewer rows or clusters than folds.
    """

    def __init__(
        self,
        run: Run,
        loss: Sequence[Any] = NETWORK_LOSSES,
        *,
        cv: int = CV,
        estimators: Sequence[str] = (NETWORK,),
        preset: Preset = PRESETS["default"],
    ) -> None:
        self.run, self.cv, self.estimators, self.preset = run, cv, tuple(estimators), preset
        self.num_classes = len(run.model_config.classes)
        self.criteria: dict[str, nn.Module] = {}
        for spec in loss if NETWORK in self.estimators else []:
            criterion = losses.create(spec, num_classes=self.num_classes, reduction="sum")
            if not is_batchable(criterion):
                raise InputError(f"loss: {spec} cannot be part of an ensemble; use --cv 1 --loss {spec}.")
            self.criteria[str(spec)] = criterion
        self.train_config = run.train_config.replace(**(ENSEMBLE | dict(run.config.training or {})))
        self.rows: IntArray = np.concatenate([run.splits["train"], run.splits["validation"]])
        clusters = run.prepared.manifest.clusters()
        self.groups = None if clusters is None else np.array([clusters[row] for row in self.rows])
        self.targets = run.targets[self.rows]
        self.model_config = run.model_config
        if run.model_config.kind == TABLE:
            columns = table_features(run.prepared.manifest)
            table = {name: np.array(values, dtype=object)[self.rows] for name, values in columns.items()}
            self.model_config = replace(run.model_config, columns=TableEncoder.fit(table, warn=False).to_dict())
        copies = row_copies(run.prepared)
        if copies is not None:
            copies = copies[self.rows]
            self.groups = copies if self.groups is None else merge_groups(self.groups, copies)
        self.folds = cross_fit_folds(grades(self.targets), cv, groups=self.groups, random_state=run.config.seed)

    def spec(self) -> dict[str, Any]:
        """Settings of the ensemble, and the versions of the packages."""
        run = self.run.spec()
        settings = {"loss": list(self.criteria), "cv": self.cv, "train_config": asdict(self.train_config)}
        if self.estimators != (NETWORK,):
            settings["estimators"] = list(self.estimators)
        if BOOSTING in self.estimators:
            settings |= {"trees": list(self.preset.boosting_losses), "boosting": asdict(BoostingConfig())}
        return run | {"spec": run["spec"] | settings}

    def train(
        self, folder: Path, *, calibrator: Any = None, progress: Progress | None = None, complete: bool = True
    ) -> tuple[Result, Ensemble]:
        """Train the members that are not in the folder yet, pool and calibrate them, and write the model.

        Writes model.safetensors, the files of the members (so that an interrupted training resumes), the out-of-fold
        and test predictions before the calibrator, and at the end model.json.

        Args:
            folder: folder of the result.
            calibrator: unfitted calibrator, or ``None`` for none.
            progress: see `orcu.ensemble.learner.Progress`.
            complete: whether to write model.json; otherwise the caller does, after the files that it adds.

        Raises:
            InputError: if the folder has members of other settings, or a file in it was changed.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with first_before_others():
            claim(folder, self.spec())
            if is_first():
                check_members(folder)
        inputs, manifest = self._inputs(), self.run.prepared.manifest
        ensemble = fit_ensemble(
            self._learners(),
            TrainingData(inputs[self.rows], self.targets, self.num_classes),
            self.folds,
            calibrator=calibrator,
            groups=self.groups,
            ids=[manifest.ids[row] for row in self.rows],
            folder=folder if is_first() else None,
            progress=progress,
        )
        model, model_config = self._model(ensemble)
        test = self.run.splits["test"]
        predictions = {
            "out_of_fold": self.run.predictions(ensemble.logits, self.rows, "out of fold"),
            "test": self.run.predictions(ensemble.predict_logits(inputs[test]), test, "test"),
        }
        if is_first():
            save_weights(folder, model)
            for name, part in predictions.items():
                part.write(folder / f"{name}.parquet")
            if complete:
                write_config(folder, model_config)
        return Result(folder, model, model_config, [], predictions, self.train_config), ensemble

    def _inputs(self) -> Inputs:
        if self.model_config.kind == TABLE:
            return self._encoder().encode(table_features(self.run.prepared.manifest))
        return Inputs(None, self.run.features())

    def _encoder(self) -> TableEncoder:
        return TableEncoder.from_dict(self.model_config.columns)

    def _learners(self) -> list[BaseLearner]:
        """The base learners; networks one per loss, so that an interrupted training loses little."""
        seed = self.run.config.seed
        objectives = {loss: objective(loss, num_classes=self.num_classes) for loss in self.preset.boosting_losses}
        learners: list[BaseLearner] = []
        for kind in self.estimators:
            if kind != NETWORK:
                categorical = self._encoder().categorical
                learners += table_learners(kind, objectives=objectives, categorical=categorical, seed=seed)
        sizes = tuple(self.run.model_config.hidden_layer_sizes)
        return learners + [
            PerceptronLearner({name: criterion}, self.train_config, sizes, seed + index, index)
            for index, (name, criterion) in enumerate(self.criteria.items())
        ]

    def _model(self, ensemble: Ensemble) -> tuple[EnsembleClassifier, Any]:
        """The networks on their backbone as one module, and the model's settings, other members included."""
        module, networks = as_module(ensemble), network_members(ensemble)
        others = [
            {"name": member.name, "weight": ensemble.factors[member.name], **_description(member)}
            for member in ensemble.members
            if member not in networks
        ]
        model_config = replace(
            self.model_config, weights=[float(weight) for weight in module.weights], folds=self.cv, estimators=others
        )
        config = self.run.config
        model = model_config.build(weights=config.weights, download=config.download, seed=config.seed)
        assert isinstance(model, EnsembleClassifier)  # noqa: S101 -- the settings have weights or estimators
        for member, trained in zip(model.members, module.members, strict=True):
            member.load_state_dict(trained.state_dict())
        return model, model_config


def _description(member: CrossFitted) -> dict[str, Any]:
    """Kind of a member that is not a network, and for boosted trees the library and the start values."""
    learner = member.learner
    assert isinstance(learner, FoldLearner)  # noqa: S101
    if isinstance(learner, BoostingLearner):
        start = np.asarray(learner.init_score).tolist()
        return {"kind": BOOSTING, "library": learner.config.library, "start": start}
    return {"kind": learner_kind(learner)}
