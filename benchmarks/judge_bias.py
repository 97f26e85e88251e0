"""False alarms and coverage of the bias audit, and coverage of the strengths of `rank_pairs`, in simulations.

    python benchmarks/judge_bias.py [--audits 600] [--rankings 100]

Bias: grades 1..5 of people and of a judge with noise, and with an error that the items of a cluster share. Three
columns have no effect: numbers with a long tail (words), a language with two rare categories, and a position that is
constant within clusters. A false alarm is an audit with any significant effect (Holm, 5 %); coverage is that of 0 by
the 95 % intervals.

Pairs: four systems with known strengths, and preferences of people by Davidson's model (or five outcomes) for a part
of the comparisons. The judge has noise, prefers the first answer and, in one setting, the first system. Coverage is
that of the true strengths, averaged over systems.
"""

import argparse

import numpy as np

from orcu.judges import Grades, Preferences, rank_pairs
from orcu.judges.bias import bias_effects
from orcu.judges.bradley_terry import outcome_scores

AUDITS = (
    {"items": 300},
    {"items": 300, "per_cluster": 10},
    {"items": 300, "per_cluster": 30},
    {"items": 60, "rare": 0.2},
    {"items": 1000, "rare": 0.02},
)
RANKINGS = (
    {},
    {"own": 1.0},
    {"outcomes": 5, "kind": "probs"},
    {"orders": 1},
    {"human": 1.0},
    {"prompts": 40, "human": 0.5},
)
STRENGTHS = np.array([-0.6, -0.2, 0.2, 0.6])
LEVELS = {3: "A,tie,B", 5: "A>>B,A>B,tie,B>A,B>>A"}


def grades_without_bias(seed: int, *, items: int, per_cluster: int = 1, rare: float = 0.05) -> Grades:
    """Grades whose error depends on no column."""
    rng = np.random.default_rng(seed)
    quality = rng.uniform(1, 5, items)
    human = np.rint(quality + rng.normal(0, 0.6, items)).clip(1, 5)
    cluster = np.arange(items) // per_cluster
    shared = rng.normal(0, 0.4, items)[cluster] if per_cluster > 1 else 0
    judged = quality + shared + rng.normal(0, 0.6, items)
    probs = np.exp(-4 * (np.arange(1, 6) - judged[:, None]) ** 2) + 1e-6
    bias = {
        "words": rng.lognormal(0, 1, items),
        "language": rng.choice(["en", "de", "fr"], p=[1 - 2 * rare, rare, rare], size=items),
        "position": np.where(cluster % 2, "first", "second"),
    }
    probs /= probs.sum(axis=1, keepdims=True)
    return Grades.from_arrays("1..5", {"judge": probs}, human=human, cluster=cluster, bias=bias)


def preferences(
    seed: int,
    *,
    prompts: int = 150,
    outcomes: int = 3,
    human: float = 0.3,
    orders: int = 2,
    own: float = 0.0,
    kind: str = "votes",
) -> Preferences:
    """Preferences of people by known strengths, and of a judge with a position bias."""
    rng = np.random.default_rng(seed)
    scores, rows, ratings, people = outcome_scores(outcomes), [], [], []
    for prompt in range(prompts):
        for s in range(4):
            for t in range(s + 1, 4):
                weights = np.exp(scores * (STRENGTHS[s] - STRENGTHS[t]) + 0.3 * (np.abs(scores) < 0.5))
                outcome = rng.choice(outcomes, p=weights / weights.sum())
                latent = 4 * scores[outcome] + rng.logistic() + own * (s == 0)
                is_graded = rng.random() < human
                for swapped in rng.permutation(2)[:orders]:
                    seen = 0.8 + 0.3 * rng.logistic() + (-latent if swapped else latent)
                    probs = np.exp(-((seen - np.linspace(2, -2, outcomes)) ** 2)) + 1e-9
                    rows.append((prompt, *("abcd"[k] for k in ((t, s) if swapped else (s, t)))))
                    ratings.append(np.eye(outcomes)[probs.argmax()] if kind == "votes" else probs / probs.sum())
                    chosen = np.eye(outcomes)[outcomes - 1 - outcome if swapped else outcome]
                    people.append(chosen if is_graded else np.full(outcomes, np.nan))
    item, first, second = zip(*rows, strict=True)
    columns = {"item": item, "first": first, "second": second, kind: ratings}
    return Preferences.from_arrays(LEVELS[outcomes], **columns, human=people)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--audits", type=int, default=600)
    parser.add_argument("--rankings", type=int, default=100)
    arguments = parser.parse_args()
    for options in AUDITS:
        alarms, covered = 0, dict[str, list[bool]]()
        for seed in range(arguments.audits):
            effects = [each for each in bias_effects(grades_without_bias(seed, **options)) if not each.note]
            alarms += any(effect.is_significant for effect in effects)
            for effect in effects:
                covered.setdefault(effect.comparison, []).append(effect.low <= 0 <= effect.high)
        shares = ", ".join(f"{name} {100 * np.mean(values):.1f} %" for name, values in covered.items())
        print(f"{options}: false alarms {100 * alarms / arguments.audits:.1f} %; coverage {shares}", flush=True)
    for options in RANKINGS:
        inside, errors = [], []
        for seed in range(arguments.rankings):
            ranking = rank_pairs(preferences(seed, **options), n_resamples=200)
            rows = [ranking[name] for name in "abcd"]
            inside += [row.low <= truth <= row.high for row, truth in zip(rows, STRENGTHS, strict=True)]
            errors.append([row.strength - truth for row, truth in zip(rows, STRENGTHS, strict=True)])
        mean = np.abs(np.mean(errors, axis=0)).max()
        print(f"{options}: coverage {100 * np.mean(inside):.1f} %, largest mean error {mean:.3f}", flush=True)


if __name__ == "__main__":
    main()
