"use strict";
/* What the numbers say, in words: as orcu.report.headline and orcu.evaluation.printed write them. */
const orcuWords = (() => {
  const FEW_ROWS = 30;

  /* A number with some decimals; halves go to the even digit, as Python rounds. */
  function fixed(value, digits) {
    const half = Number.isInteger(value * 2 ** (digits + 1)) && !Number.isInteger(value * 2 ** digits);
    if (!half) return value.toFixed(digits);
    const below = Math.floor(value * 10 ** digits);
    return ((below + Math.abs(below % 2)) / 10 ** digits).toFixed(digits);
  }

  const counted = rows => rows.toLocaleString("en-US");
  const percent = value => `${fixed(value * 100, Math.abs(value) >= 0.01 || value === 0 ? 1 : 2)}\u00a0%`;

  /* A value for a tile: percent with one or two digits, else three digits. */
  function shown(value, { share = false, signed = false } = {}) {
    if (Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return "infinite";
    const sign = signed && value > 0 ? "+" : "";
    return sign + (share ? percent(value) : fixed(value, 3).replace(/^-(0\.0*)$/, "$1"));
  }

  function headline({ rows, classes, confidence, metrics }) {
    const gap = metrics.overconfidence;
    const claim = `it says ${percent(confidence)} on average and is right ${percent(metrics.accuracy)} of the time.`;
    const points = fixed(Math.abs(gap) * 100, Math.abs(gap) >= 0.1 ? 0 : 1);
    const first = rows < FEW_ROWS ? `${rows} rows are too few to judge confidence: ${claim}`
      : `${gap > 0 ? "Over-confident" : "Under-confident"} by ${points} points on these rows: ${claim}`;
    const odd = Math.round((1 - metrics.unimodality) * rows);
    const shape = metrics.unimodality === 1
      ? "All predictions are unimodal: mass falls off on both sides of the most likely class."
      : `${metrics.unimodality >= 0.9995 ? "Nearly 100\u00a0%" : percent(metrics.unimodality)} of the predictions are unimodal `
        + `(${odd === 1 ? "one row has" : `${counted(odd)} rows have`} several humps).`;
    const decisions = classes === 2 ? `Decisions are right in ${percent(metrics.accuracy)}.`
      : `Decisions are right or one class off in ${percent(metrics.within_one)}, and ${fixed(metrics.mae, 2)} classes off on average.`;
    return [first, shape, decisions];
  }

  /* A warning where labels moved by one class would fit far better: they may start elsewhere. */
  function labelDoubt({ rows, classes, confusion, metrics }) {
    for (const [shift, where] of [[1, "one class higher"], [-1, "one class lower"]]) {
      let moved = 0;
      for (let i = Math.max(0, -shift); i < classes - Math.max(0, shift); i++) moved += confusion[i * classes + i + shift];
      if (moved / rows > metrics.accuracy + 0.2) {
        return `WARNING: labels ${where} would be right in ${fixed(100 * moved / rows, 0)}\u00a0% of the rows instead of `
          + `${fixed(100 * metrics.accuracy, 0)}\u00a0%; do labels and classes start at the same number?`;
      }
    }
    return null;
  }

  return Object.freeze({ counted, percent, shown, headline, labelDoubt });
})();
