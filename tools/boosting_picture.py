"""The picture of docs/boosting.md: predicted probabilities of one diamond with cross-entropy and with ORCU.

    python tools/boosting_picture.py    # needs orcu[boosting,data,figures]

Both models are fitted by LightGBM on the same 9,600 diamonds with the same settings, 400 rounds and no calibrator. The
example is the one of 2,400 other diamonds with the highest second mode under cross-entropy.
"""

from pathlib import Path

import lightgbm as lgb
import matplotlib.pyplot as plt
import numpy as np
from plotnine.data import diamonds

from orcu import boosting, geometry, metrics
from orcu.figures.save import save
from orcu.figures.style import loss_styles
from orcu.io.frames import columns_from_frame
from orcu.preprocessing import TableEncoder

FILE = Path(__file__).parents[1] / "docs" / "_static" / "boosting.png"
ROWS, TRAIN_ROWS, ROUNDS = 12_000, 9_600, 400


def second_mode(probs: np.ndarray) -> np.ndarray:
    """Largest increase of each distribution away from its mode."""
    mode = probs.argmax(axis=1)
    rises = np.zeros(len(probs))
    for k in range(1, probs.shape[1]):
        away = k > mode
        low = np.where(np.arange(probs.shape[1]) >= mode[:, None], probs, np.inf)[:, :k].min(axis=1, initial=np.inf)
        rises = np.maximum(rises, np.where(away, probs[:, k] - low, 0.0))
        back = k <= mode
        low = np.where(np.arange(probs.shape[1]) <= mode[:, None], probs, np.inf)[:, k:].min(axis=1, initial=np.inf)
        rises = np.maximum(rises, np.where(back, probs[:, k - 1] - low, 0.0))
    return rises


def main() -> None:
    """Fit both models, select the row, and draw it."""
    frame = diamonds.iloc[np.random.default_rng(0).permutation(len(diamonds))[:ROWS]].reset_index(drop=True)
    y, grades = frame["clarity"].cat.codes.to_numpy().astype(np.int64), list(frame["clarity"].cat.categories)
    table = columns_from_frame(frame.drop(columns="clarity"))
    encoder = TableEncoder.fit(table)
    x, classes = encoder.encode(table, features=False).codes, len(grades)
    probs = {}
    for name in ("ce", "orcu"):
        loss = boosting.objective(name, num_classes=classes)
        start = loss.init_score(y[:TRAIN_ROWS])
        data = lgb.Dataset(
            x[:TRAIN_ROWS],
            y[:TRAIN_ROWS],
            init_score=np.tile(start, (TRAIN_ROWS, 1)),
            categorical_feature=encoder.categorical,
            params={"verbosity": -1},
        )
        objective = "multiclass" if name == "ce" else boosting.lightgbm_objective(loss, num_classes=classes)
        params = {"objective": objective, "num_class": classes, "verbosity": -1, "num_threads": 1}
        booster = lgb.train(params, data, num_boost_round=ROUNDS)
        probs[name] = geometry.probs(np.asarray(booster.predict(x[TRAIN_ROWS:], raw_score=True)) + start)
    row = int(np.argmax(second_mode(probs["ce"])))
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.9), sharey=True, layout="constrained")
    styles = loss_styles(["ce", "orcu"])
    for ax, (name, title) in zip(axes, {"ce": "multiclass", "orcu": "ORCU"}.items(), strict=True):
        ax.bar(grades, probs[name][row], color=styles[name].color, width=0.8)
        share = 100 * metrics.unimodality(probs[name])
        accuracy = 100 * metrics.accuracy(probs[name], y[TRAIN_ROWS:])
        ax.set_title(f"{title}: {share:.0f} % unimodal, accuracy {accuracy:.0f} %", fontsize=10)
        ax.set_xlabel("clarity of one diamond")
        ax.axvline(y[TRAIN_ROWS:][row], color="0.3", linewidth=1, linestyle=":", zorder=0)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("probability")
    save(figure, FILE, dpi=130)
    print(f"wrote {FILE.name}: row {row}, true {grades[y[TRAIN_ROWS:][row]]}")


if __name__ == "__main__":
    main()
