"use strict";
/* The key figures of a report from probabilities and labels, with no page in it. The formulas and the edges of the
   bins are those of orcu.metrics (the paper's convention); the tests hold every number against the library. Classes
   count from 0; matrices are flat, row by row. */
const orcuJudge = (() => {
  const BINS = 15;
  const IMPOSSIBLE = 2 ** 19; // as in orcu.metrics.scoring: negative log-likelihoods above count as infinite
  const Z = 1.959963984540054; // of a 95 % interval

  /* The bin of a value in [0, 1]: bin i is (i/B, (i+1)/B], and 0 is in the first. */
  function binOf(value, bins) {
    let place = Math.min(Math.max(Math.ceil(value * bins) - 1, 0), bins - 1);
    // the product may round across an edge, so the edges themselves decide
    if (value <= place / bins) place -= 1;
    if (value > (place + 1) / bins) place += 1;
    return Math.min(Math.max(place, 0), bins - 1);
  }

  const emptyTable = bins => ({
    weight: new Float64Array(bins), value: new Float64Array(bins), outcome: new Float64Array(bins),
  });

  function count(table, value, outcome) {
    const bin = binOf(value, table.weight.length);
    table.weight[bin] += 1;
    table.value[bin] += value;
    table.outcome[bin] += outcome;
  }

  const total = values => values.reduce((sum, value) => sum + value, 0);

  /* sum_b n_b |mean outcome - mean value| of a table. */
  const absoluteGap = table => total(table.weight.map((_, bin) => Math.abs(table.outcome[bin] - table.value[bin])));

  /* Log-softmax of each row, and its exponential. */
  function softmax(logits, classes) {
    const logProbs = new Float64Array(logits.length);
    for (let at = 0; at < logits.length; at += classes) {
      let top = -Infinity;
      for (let k = 0; k < classes; k++) top = Math.max(top, logits[at + k]);
      let sum = 0;
      for (let k = 0; k < classes; k++) sum += Math.exp(logits[at + k] - top);
      for (let k = 0; k < classes; k++) logProbs[at + k] = logits[at + k] - top - Math.log(sum);
    }
    return { logProbs, probs: logProbs.map(Math.exp) };
  }

  /* Whether the row that begins at a place never rises after a fall. */
  function isUnimodal(values, at, classes) {
    let fell = false;
    for (let k = at; k < at + classes - 1; k++) {
      if (fell && values[k + 1] > values[k]) return false;
      fell = fell || values[k + 1] < values[k];
    }
    return true;
  }

  /* What is right, off by one class, and off on average, and kappa, from counts of (label, decision). */
  function decisions(confusion, classes) {
    const labels = new Float64Array(classes);
    const decided = new Float64Array(classes);
    let [right, near, off, squares, expected] = [0, 0, 0, 0, 0];
    for (let i = 0; i < classes; i++) {
      for (let j = 0; j < classes; j++) {
        const rows = confusion[i * classes + j];
        const distance = Math.abs(i - j);
        labels[i] += rows;
        decided[j] += rows;
        if (distance === 0) right += rows;
        if (distance <= 1) near += rows;
        off += rows * distance;
        squares += rows * distance * distance;
      }
    }
    const rows = total(labels);
    for (let i = 0; i < classes; i++) {
      for (let j = 0; j < classes; j++) expected += labels[i] * decided[j] * (i - j) ** 2 / rows;
    }
    return { accuracy: right / rows, within_one: near / rows, mae: off / rows, qwk: 1 - squares / expected };
  }

  /* Every figure of the page. `probs` and, in their place, `logits` have n x C entries, `labels` n. */
  function judge({ probs, logits = null, labels, classes, bins = BINS }) {
    let logProbs = null;
    if (logits) ({ logProbs, probs } = softmax(logits, classes));
    const shape = logits ?? probs; // logits show the shape even where their probabilities underflow to ties
    const rows = labels.length;
    const top = emptyTable(bins);
    const perClass = Array.from({ length: classes }, () => emptyTable(bins));
    const perThreshold = Array.from({ length: classes - 1 }, () => emptyTable(bins));
    const confusion = new Float64Array(classes * classes);
    let [rps, brier, nll, impossible, unimodal] = [0, 0, 0, 0, 0];
    for (let row = 0; row < rows; row++) {
      const at = row * classes;
      const label = labels[row];
      let decision = 0;
      let below = 0;
      let squares = 0;
      for (let k = 0; k < classes; k++) {
        const p = probs[at + k];
        if (p > probs[at + decision]) decision = k;
        count(perClass[k], p, label === k ? 1 : 0);
        squares += p * p;
        below += p;
        if (k < classes - 1) {
          const outcome = label <= k ? 1 : 0;
          count(perThreshold[k], below, outcome);
          rps += (below - outcome) ** 2;
        }
      }
      count(top, probs[at + decision], decision === label ? 1 : 0);
      confusion[label * classes + decision] += 1;
      brier += squares - 2 * probs[at + label] + 1;
      const loss = logProbs ? -logProbs[at + label] : -Math.log(probs[at + label]);
      if (loss > IMPOSSIBLE) impossible += 1;
      else nll += loss;
      if (isUnimodal(shape, at, classes)) unimodal += 1;
    }
    const confidence = total(top.value) / rows;
    const classErrors = perClass.map(table => absoluteGap(table) / rows);
    const thresholdErrors = perThreshold.map(table => absoluteGap(table) / rows);
    const decided = decisions(confusion, classes);
    return {
      rows, classes, confidence, impossible, confusion, classErrors, thresholdErrors,
      tables: { top, classes: perClass, thresholds: perThreshold },
      metrics: {
        ...decided, ece: absoluteGap(top) / rows, sce: total(classErrors) / classes,
        threshold_ce: total(thresholdErrors) / (classes - 1),
        overconfidence: (total(top.value) - total(top.outcome)) / rows,
        rps: rps / rows, nll: impossible > 0 ? Infinity : nll / rows, brier: brier / rows, unimodality: unimodal / rows,
      },
    };
  }

  /* The table of P(Y > k) from that of P(Y <= k): values and outcomes mirrored, bins reversed. */
  const event = ({ weight, value, outcome }) => ({
    weight: weight.slice().reverse(),
    value: weight.map((rows, bin) => rows - value[bin]).reverse(),
    outcome: weight.map((rows, bin) => rows - outcome[bin]).reverse(),
  });

  /* The filled bins of a table: what was said, what came true with its 95 % Wilson interval, and the rows. */
  function reliability({ weight, value, outcome }) {
    return Array.from(weight, (rows, bin) => ({ rows, bin })).filter(({ rows }) => rows > 0).map(({ rows, bin }) => {
      const rate = outcome[bin] / rows;
      const base = 1 + Z ** 2 / rows;
      const middle = (rate + Z ** 2 / (2 * rows)) / base;
      const half = Z * Math.sqrt(rate * (1 - rate) / rows + Z ** 2 / (4 * rows ** 2)) / base;
      return { bin, rows, said: value[bin] / rows, seen: rate, low: middle - half, high: middle + half };
    });
  }

  return Object.freeze({ BINS, binOf, judge, event, reliability });
})();
