"""Fixtures: benchmark results, two-stage runs and tiny image models, created once."""

import json
import os

import numpy as np
import pytest
from PIL import Image

from orcu import data
from orcu.bench.execution import execute
from orcu.bench.jobs import jobs
from orcu.bench.run import write_index
from orcu.bench.spec import Spec
from orcu.data.cache import build_cache
from orcu.data.store import cache_folder
from orcu.figures.base import make
from orcu.figures.sources import Sources

LOSSES = ["ce", "sord", "ls", "orcu"]
SCALES = [{"label": f"s = {s:g}", "name": "orcu", "scale": s} for s in (1.0, 5.0)]
SMALL = {"hidden_layer_sizes": [16], "training": {"epochs": 3}}


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """Folder of the data store and of all results."""
    folder = tmp_path_factory.mktemp("figures")
    before = os.environ.get("ORCU_DATA")
    os.environ["ORCU_DATA"] = str(folder / "data")
    yield folder
    if before is None:
        del os.environ["ORCU_DATA"]
    else:
        os.environ["ORCU_DATA"] = before


@pytest.fixture(scope="session")
def results(home):
    """Results of a benchmark: four losses and two scales on LEV, two folds."""
    spec = Spec(name="small", losses=[*LOSSES, *SCALES], data=[{"set": "lev", "folds": [0, 1], **SMALL}])
    for job in jobs(spec):
        assert execute(job, home / "results") == "done"
    write_index(spec, home / "results")
    return home / "results" / "small"


@pytest.fixture(scope="session")
def ranked(home):
    """Results of a benchmark with metrics only: six losses on five data sets, two folds."""
    index = []
    for i, name in enumerate(("lev", "swd", "era", "esl", "fair")):
        for j, loss in enumerate((*LOSSES, "mdca", "cdw_ce")):
            for fold in (0, 1):
                run = f"{name}_{loss}_{fold}"
                (home / "ranked" / "runs" / run).mkdir(parents=True)
                test = {"sce": 0.01 * (j + (i * j) % 3) + 0.001 * fold, "qwk": 0.5}
                job = {"fold": fold, "seed": 0, "loss": loss}
                result = {"job": job, "test": test, "validation": {}, "manifest": name}
                (home / "ranked" / "runs" / run / "result.json").write_text(json.dumps(result))
                index.append({"run": run, "data": name, "loss": loss, "fold": fold, "seed": 0})
    (home / "ranked" / "ranks").mkdir()
    (home / "ranked" / "ranks" / "runs.json").write_text(json.dumps(index))
    return home / "ranked" / "ranks"


@pytest.fixture(scope="session")
def stages(home):
    """Output folder of `orcu two-stage` with two folds."""
    from orcu.training.run import RunConfig
    from orcu.training.two_stage import two_stage

    lev = data.prepare("lev", output=home / "two_stage_data")[0]
    config = RunConfig(hidden_layer_sizes=(16,))
    for fold in range(2):
        two_stage(
            lev, lev.split("five_folds", fold), config, home / "stages" / f"fold_{fold}", epochs=(6, 2), device="cpu"
        )
    return home / "stages"


@pytest.fixture(scope="session")
def image_runs(home):
    """Output folders of tiny convolutional networks, trained with four losses on synthetic images."""
    from orcu.training.run import Run, RunConfig

    rng = np.random.default_rng(0)
    for label, name in enumerate(("0_none", "1_mild", "2_severe")):
        for number in range(20):
            pixels = rng.integers(80, size=(64, 64, 3), dtype=np.uint8)
            pixels[16:48, 16 * label : 16 * label + 32] += 150  # the bright area depends on the class
            path = home / "images" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    prepared = data.prepare("folder", home / "images", output=home / "data" / "spots")[0]
    build_cache(prepared.manifest, cache_folder(prepared.folder, 64), 64)
    splits = {"train": np.arange(0, 60, 2), "validation": np.arange(1, 60, 4), "test": np.arange(3, 60, 4)}
    for loss in LOSSES:
        config = RunConfig(
            loss=loss,
            backbone="test_resnet",
            weights="random",
            size=64,
            augment=False,
            training={"epochs": 8, "batch_size": 10, "learning_rate": 0.005},
        )
        Run(prepared, splits, config, device="cpu").train(home / "image_runs" / loss)
    return [home / "image_runs" / loss for loss in LOSSES]


@pytest.fixture(scope="session")
def sources_for(results, stages, image_runs, ranked):
    """Sources with the input of a figure."""

    def sources(name):
        others = {"two_stage": [stages], "gradcam": image_runs, "critical_difference": [ranked]}
        return Sources(others.get(name, [results]))

    return sources


@pytest.fixture(scope="session")
def drawn(sources_for):
    """Figures of the registry at a width, each drawn once."""
    figures = {}

    def figure(name, width):
        if (name, width) not in figures:
            figures[name, width] = make(name, sources_for(name), width=width)
        return figures[name, width]

    return figure
