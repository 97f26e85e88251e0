"""The picture of docs/boosting.md: one diamond's probabilities by trees of cross-entropy and by trees of ORCU.

    python tools/boosting_picture.py    # needs orcu[boosting,data,figures]

Both are grown by LightGBM on the same 9,600 diamonds with the same settings, 400 rounds, no calibrator. Of 2,400
others the one is drawn whose second hump is the highest by cross-entropy; the titles say how many have two.
"""

from pathlib import Path

import lightgbm as lgb
import matplotlib.pyplot as plt
import numpy as np
from plotnine.data import diamonds

from orcu import boosting, geometry, metrics
from orcu.boosting.columns import TreeColumns
from orcu.figures.save import save
from orcu.figures.style import looks
from orcu.io.frames import table_of

FILE = Path(__file__).parents[1] / "docs" / "_static" / "boosting.png"
ROWS, FITTED, ROUNDS = 12_000, 9_600, 400


def second_hump(probs: np.ndarray) -> np.ndarray:
    """How far each distribution rises again after it has fallen away from its mode."""
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
    """Grow, choose the row, draw."""
    frame = diamonds.iloc[np.random.default_rng(0).permutation(len(diamonds))[:ROWS]].reset_index(drop=True)
    y, grades = frame["clarity"].cat.codes.to_numpy().astype(np.int64), list(frame["clarity"].cat.categories)
    table = table_of(frame.drop(columns="clarity"))
    columns = TreeColumns.fit(table)
    x, classes = columns.matrix(table), len(grades)
    probs = {}
    for name in ("ce", "orcu"):
        loss = boosting.objective(name, num_classes=classes)
        start = loss.start(y[:FITTED])
        data = lgb.Dataset(
            x[:FITTED],
            y[:FITTED],
            init_score=np.tile(start, (FITTED, 1)),
            categorical_feature=columns.categorical,
            params={"verbosity": -1},
        )
        objective = "multiclass" if name == "ce" else boosting.for_lightgbm(loss, num_classes=classes)
        params = {"objective": objective, "num_class": classes, "verbosity": -1, "num_threads": 1}
        booster = lgb.train(params, data, num_boost_round=ROUNDS)
        probs[name] = geometry.probs(np.asarray(booster.predict(x[FITTED:], raw_score=True)) + start)
    row = int(np.argmax(second_hump(probs["ce"])))
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.9), sharey=True, layout="constrained")
    look = looks(["ce", "orcu"])
    for ax, (name, title) in zip(axes, {"ce": "multiclass", "orcu": "ORCU"}.items(), strict=True):
        ax.bar(grades, probs[name][row], color=look[name].color, width=0.8)
        share = 100 * metrics.unimodality(probs[name])
        right = 100 * metrics.accuracy(probs[name], y[FITTED:])
        ax.set_title(f"{title}: {share:.0f} % of all unimodal, {right:.0f} % right", fontsize=10)
        ax.set_xlabel("clarity of one diamond")
        ax.axvline(y[FITTED:][row], color="0.3", linewidth=1, linestyle=":", zorder=0)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("probability")
    save(figure, FILE, dpi=130)
    print(f"wrote {FILE.name}: row {row}, true {grades[y[FITTED:][row]]}")


if __name__ == "__main__":
    main()
