"use strict";
/* Synthetic predictions of an over-confident model as a CSV: labels are drawn from a distribution, and the model
   predicts a sharper one with noise. The example is the same on every page. */
const orcuExample = (() => {
  const CLASSES = ["none", "mild", "moderate", "severe", "extreme"];
  const ROWS = 1200;

  /* Numbers between 0 and 1 from a linear congruential generator. */
  function generator(seed) {
    let state = seed;
    return () => {
      state = (1664525 * state + 1013904223) % 2 ** 32;
      return state / 2 ** 32;
    };
  }

  const softmax = logits => orcuModel.logProbs(logits).map(Math.exp);

  function csv() {
    const random = generator(25);
    const lines = [["label", ...CLASSES.map(name => `p_${name}`)].join(",")];
    for (let row = 0; row < ROWS; row++) {
      const centre = 5.5 * random() - 0.75;
      const logits = CLASSES.map((_, k) => -1.1 * Math.abs(k - centre));
      let remaining = random();
      const label = softmax(logits).findIndex(p => (remaining -= p) < 0);
      const probs = softmax(logits.map(z => 2 * z + 2.6 * (random() - 0.5)));
      lines.push([CLASSES[label < 0 ? CLASSES.length - 1 : label], ...probs.map(p => p.toFixed(7))].join(","));
    }
    return `${lines.join("\n")}\n`;
  }

  return Object.freeze({ csv });
})();
