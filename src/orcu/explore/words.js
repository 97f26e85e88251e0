"use strict";
/* The same sentences and number formats as orcu.report.headline and orcu.evaluation.formatting. */
const orcuWords = (() => {
  const MIN_ROWS = 30;

  /* A number with fixed decimals; halves are rounded to even, as in Python. */
  function fixed(value, digits) {
    const half = Number.isInteger(value * 2 ** (digits + 1)) && !Number.isInteger(value * 2 ** digits);
    if (!half) return value.toFixed(digits);
    const below = Math.floor(value * 10 ** digits);
    return ((below + Math.abs(below % 2)) / 10 ** digits).toFixed(digits);
  }

  const formatCount = rows => rows.toLocaleString("en-US");
  const percent = value => `${fixed(value * 100, Math.abs(value) >= 0.01 || value === 0 ? 1 : 2)}\u00a0%`;

  /* Value of a tile: percent with one or two decimals, else three decimals. */
  function shown(value, { share = false, signed = false } = {}) {
    if (Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return "infinite";
    const sign = signed && value > 0 ? "+" : "";
    return sign + (share ? percent(value) : fixed(value, 3).replace(/^-(0\.0*)$/, "$1"));
  }

  function headline({ rows, classes, confidence, metrics }) {
    const gap = metrics.overconfidence;
    const values = `the mean confidence is ${percent(confidence)}, the accuracy ${percent(metrics.accuracy)}.`;
    const points = fixed(Math.abs(gap) * 100, Math.abs(gap) >= 0.1 ? 0 : 1);
    const first = rows < MIN_ROWS ? `${rows} rows are too few to assess the confidence: ${values}`
      : `${gap > 0 ? "Over-confident" : "Under-confident"} by ${points} points on these rows: ${values}`;
    const multimodal = Math.round((1 - metrics.unimodality) * rows);
    const shape = metrics.unimodality === 1
      ? "All predictions are unimodal: probabilities decrease on both sides of the most probable class."
      : `${metrics.unimodality >= 0.9995 ? "More than 99.9\u00a0%" : percent(metrics.unimodality)} of the predictions are unimodal `
        + `(${multimodal === 1 ? "1 row has" : `${formatCount(multimodal)} rows have`} more than one mode).`;
    const decisions = classes === 2 ? `${percent(metrics.accuracy)} of the decisions are right.`
      : `${percent(metrics.off_by_one_accuracy)} of the decisions are right or one class off; the mean absolute error is ${fixed(metrics.mae, 2)} classes.`;
    return [first, shape, decisions];
  }

  /* Warning if labels shifted by one class would be far more accurate: they may start at another number. */
  function labelWarning({ rows, classes, confusion, metrics }) {
    for (const [shift, where] of [[1, "one class higher"], [-1, "one class lower"]]) {
      let correct = 0;
      for (let i = Math.max(0, -shift); i < classes - Math.max(0, shift); i++) correct += confusion[i * classes + i + shift];
      if (correct / rows > metrics.accuracy + 0.2) {
        return `WARNING: the accuracy is ${fixed(100 * metrics.accuracy, 0)}\u00a0%, but ${fixed(100 * correct / rows, 0)}\u00a0% `
          + `with all labels ${where}; do labels and classes start at the same number?`;
      }
    }
    return null;
  }

  return Object.freeze({ formatCount, percent, shown, headline, labelWarning });
})();
