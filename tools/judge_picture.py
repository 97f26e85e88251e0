"""The picture of docs/guides/llm_judges.md: grade probabilities of one answer, uncalibrated and calibrated.

    python tools/judge_picture.py DIR    # DIR contains mllm_judge_logprobs.csv

The judge is Gemini 2.5 Flash; every other block of 50 items is used for calibration. The example is the answer of the
other blocks at the upper quartile of the improvement by calibration.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from orcu import metrics
from orcu.figures.save import save
from orcu.judges import read
from orcu.judges.panel import fit_for_prediction

FILE = Path(__file__).parents[1] / "docs" / "_static" / "judge.png"


def main() -> None:
    """Calibrate, select the answer, and draw it."""
    table = pd.read_csv(Path(sys.argv[1]) / "mllm_judge_logprobs.csv", keep_default_na=False)
    table = table[table["judge"].str.startswith("gemini")]
    grades = read(table, probs="p_*", item="item", human="human")
    evaluated = np.array([int(item) // 50 % 2 == 0 for item in grades.items])
    new, y = grades[evaluated], grades[evaluated].human.argmax(axis=1)
    probs = {
        "uncalibrated": new.ratings["judge"],
        "calibrated": fit_for_prediction(grades[~evaluated]).predict_proba(new),
    }
    truth = np.arange(5) >= y[:, None]
    costs = {name: ((model.cumsum(axis=1) - truth) ** 2).sum(axis=1) for name, model in probs.items()}
    order = np.argsort(costs["uncalibrated"] - costs["calibrated"], kind="stable")
    row = int(order[int(0.75 * (len(order) - 1))])
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.9), sharey=True, layout="constrained")
    for ax, (name, model) in zip(axes, probs.items(), strict=True):
        colors = ["#1f6fb4" if k == y[row] else "#9fb6cd" for k in range(5)]
        ax.bar(grades.levels.names, model[row], color=colors, width=0.8)
        confidence, accuracy = 100 * model.max(axis=1).mean(), 100 * metrics.accuracy(model, y)
        ax.set_title(f"{name}: confidence {confidence:.0f} %, accuracy {accuracy:.0f} %", fontsize=10)
        ax.set_xlabel("grade of one answer; dark: human grade")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("probability")
    save(figure, FILE, dpi=130)
    print(f"wrote {FILE.name}")


if __name__ == "__main__":
    main()
