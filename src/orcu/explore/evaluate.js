"use strict";
/* Metrics of predictions, without any drawing. Formulas and bin edges are those of orcu.metrics (the paper's
   convention), and tests compare every number with the library. Class numbers start at 0; matrices are flat, in
   row-major order. */
const orcuEvaluation = (() => {
  const N_BINS = 15;
  const MAX_LOSS = 2 ** 19; // larger negative log-likelihoods count as infinite, as in orcu.metrics.scoring
  const Z = 1.959963984540054; // normal quantile of a 95 % interval

  /* Bin of a value in [0, 1]: bin i is (i/B, (i+1)/B], and 0 is in the first bin. */
  function binIndex(value, nBins) {
    let bin = Math.min(Math.max(Math.ceil(value * nBins) - 1, 0), nBins - 1);
    // the product may round across an edge, so compare with the edges
    if (value <= bin / nBins) bin -= 1;
    if (value > (bin + 1) / nBins) bin += 1;
    return Math.min(Math.max(bin, 0), nBins - 1);
  }

  const emptyTable = nBins => ({
    weight: new Float64Array(nBins), value: new Float64Array(nBins), outcome: new Float64Array(nBins),
  });

  function addToBin(table, value, outcome) {
    const bin = binIndex(value, table.weight.length);
    table.weight[bin] += 1;
    table.value[bin] += value;
    table.outcome[bin] += outcome;
  }

  const total = values => values.reduce((sum, value) => sum + value, 0);

  /* sum_b n_b |mean outcome - mean value| over the bins of a table. */
  const absoluteGap = table => total(table.weight.map((_, bin) => Math.abs(table.outcome[bin] - table.value[bin])));

  /* Log-softmax of each row, and the probabilities. */
  function softmax(logits, classes) {
    const logProbs = new Float64Array(logits.length);
    for (let start = 0; start < logits.length; start += classes) {
      logProbs.set(orcuModel.logProbs(logits.subarray(start, start + classes)), start);
    }
    return { logProbs, probs: logProbs.map(Math.exp) };
  }

  /* Whether the row that starts at an index never increases after a decrease; without allocations, for many rows. */
  function isUnimodal(values, start, classes) {
    let decreased = false;
    for (let k = start; k < start + classes - 1; k++) {
      if (decreased && values[k + 1] > values[k]) return false;
      decreased = decreased || values[k + 1] < values[k];
    }
    return true;
  }

  /* Accuracy, off-by-one accuracy, mean absolute error and quadratic weighted kappa of a confusion matrix. */
  function decisionMetrics(confusion, classes) {
    const labels = new Float64Array(classes);
    const predicted = new Float64Array(classes);
    let [correct, offByOne, absolute, squared, expected] = [0, 0, 0, 0, 0];
    for (let i = 0; i < classes; i++) {
      for (let j = 0; j < classes; j++) {
        const rows = confusion[i * classes + j];
        const distance = Math.abs(i - j);
        labels[i] += rows;
        predicted[j] += rows;
        if (distance === 0) correct += rows;
        if (distance <= 1) offByOne += rows;
        absolute += rows * distance;
        squared += rows * distance * distance;
      }
    }
    const rows = total(labels);
    for (let i = 0; i < classes; i++) {
      for (let j = 0; j < classes; j++) expected += labels[i] * predicted[j] * (i - j) ** 2 / rows;
    }
    return { accuracy: correct / rows, off_by_one_accuracy: offByOne / rows, mae: absolute / rows, qwk: 1 - squared / expected };
  }

  /* All metrics and tables of the page. `probs` or `logits` have n x C entries, `labels` has n. */
  function evaluate({ probs, logits = null, labels, classes, nBins = N_BINS }) {
    let logProbs = null;
    if (logits) ({ logProbs, probs } = softmax(logits, classes));
    const shape = logits ?? probs; // logits keep the shape where probabilities underflow
    const rows = labels.length;
    const top = emptyTable(nBins);
    const perClass = Array.from({ length: classes }, () => emptyTable(nBins));
    const perThreshold = Array.from({ length: classes - 1 }, () => emptyTable(nBins));
    const confusion = new Float64Array(classes * classes);
    let [rps, brier, nll, impossible, unimodal] = [0, 0, 0, 0, 0];
    for (let row = 0; row < rows; row++) {
      const start = row * classes;
      const label = labels[row];
      let prediction = 0;
      let cumulative = 0;
      let squares = 0;
      for (let k = 0; k < classes; k++) {
        const p = probs[start + k];
        if (p > probs[start + prediction]) prediction = k;
        addToBin(perClass[k], p, label === k ? 1 : 0);
        squares += p * p;
        cumulative += p;
        if (k < classes - 1) {
          const outcome = label <= k ? 1 : 0;
          addToBin(perThreshold[k], cumulative, outcome);
          rps += (cumulative - outcome) ** 2;
        }
      }
      addToBin(top, probs[start + prediction], prediction === label ? 1 : 0);
      confusion[label * classes + prediction] += 1;
      brier += squares - 2 * probs[start + label] + 1;
      const loss = logProbs ? -logProbs[start + label] : -Math.log(probs[start + label]);
      if (loss > MAX_LOSS) impossible += 1;
      else nll += loss;
      if (isUnimodal(shape, start, classes)) unimodal += 1;
    }
    const confidence = total(top.value) / rows;
    const classErrors = perClass.map(table => absoluteGap(table) / rows);
    const thresholdErrors = perThreshold.map(table => absoluteGap(table) / rows);
    return {
      rows, classes, confidence, impossible, confusion, classErrors, thresholdErrors,
      tables: { top, classes: perClass, thresholds: perThreshold },
      metrics: {
        ...decisionMetrics(confusion, classes), ece: absoluteGap(top) / rows, sce: total(classErrors) / classes,
        threshold_ce: total(thresholdErrors) / (classes - 1),
        overconfidence: (total(top.value) - total(top.outcome)) / rows,
        rps: rps / rows, nll: impossible > 0 ? Infinity : nll / rows, brier: brier / rows, unimodality: unimodal / rows,
      },
    };
  }

  /* The table of P(Y > k) from the table of P(Y <= k): complementary values and outcomes, bins in reverse order. */
  const complement = ({ weight, value, outcome }) => ({
    weight: weight.slice().reverse(),
    value: weight.map((rows, bin) => rows - value[bin]).reverse(),
    outcome: weight.map((rows, bin) => rows - outcome[bin]).reverse(),
  });

  /* Non-empty bins of a table: mean predicted probability, observed frequency with 95 % Wilson interval, rows. */
  function reliability({ weight, value, outcome }) {
    return Array.from(weight, (rows, bin) => ({ rows, bin })).filter(({ rows }) => rows > 0).map(({ rows, bin }) => {
      const rate = outcome[bin] / rows;
      const base = 1 + Z ** 2 / rows;
      const middle = (rate + Z ** 2 / (2 * rows)) / base;
      const half = Z * Math.sqrt(rate * (1 - rate) / rows + Z ** 2 / (4 * rows ** 2)) / base;
      return { bin, rows, predicted: value[bin] / rows, observed: rate, low: middle - half, high: middle + half };
    });
  }

  return Object.freeze({ N_BINS, binIndex, evaluate, complement, reliability });
})();
