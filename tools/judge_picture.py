"""The picture of docs/guides/judges.md: one answer's grades as the judge says them, and calibrated.

    python tools/judge_picture.py DIR    # DIR holds mllm_judge_logprobs.csv

The judge is Gemini 2.5 Flash; every other block of 50 items calibrates. Of the others the answer is drawn on which
calibration gains more than on three quarters of them.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from orcu import metrics
from orcu.figures.save import save
from orcu.judges.grades import read
from orcu.judges.panel import fitted_map

FILE = Path(__file__).parents[1] / "docs" / "_static" / "judge.png"


def main() -> None:
    """Calibrate, choose the answer, draw."""
    table = pd.read_csv(Path(sys.argv[1]) / "mllm_judge_logprobs.csv", keep_default_na=False)
    table = table[table["judge"].str.startswith("gemini")]
    grades = read(table, probs="p_*", item="item", human="human")
    judging = np.array([int(item) // 50 % 2 == 0 for item in grades.items])
    new, y = grades[judging], grades[judging].human.argmax(axis=1)
    probs = {"as it comes": new.said["judge"], "calibrated": fitted_map(grades[~judging]).predict_proba(new)}
    truth = np.arange(5) >= y[:, None]
    costs = {name: ((one.cumsum(axis=1) - truth) ** 2).sum(axis=1) for name, one in probs.items()}
    order = np.argsort(costs["as it comes"] - costs["calibrated"], kind="stable")
    row = int(order[int(0.75 * (len(order) - 1))])
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.9), sharey=True, layout="constrained")
    for ax, (name, one) in zip(axes, probs.items(), strict=True):
        colors = ["#1f6fb4" if k == y[row] else "#9fb6cd" for k in range(5)]
        ax.bar(grades.scale.names, one[row], color=colors, width=0.8)
        said, right = 100 * one.max(axis=1).mean(), 100 * metrics.accuracy(one, y)
        ax.set_title(f"{name}: {said:.0f} % sure, {right:.0f} % right", fontsize=10)
        ax.set_xlabel("grade of one answer; dark: the person's")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("probability")
    save(figure, FILE, dpi=130)
    print(f"wrote {FILE.name}")


if __name__ == "__main__":
    main()
