"use strict";
/* Synthetic predictions of an over-confident model, as a CSV: labels are drawn from a distribution, and the model says
   a sharper one with a little noise. The same on every page. */
const orcuExample = (() => {
  const CLASSES = ["none", "mild", "moderate", "severe", "extreme"];
  const ROWS = 1200;

  /* Numbers between 0 and 1 from a linear congruential generator. */
  function dice(seed) {
    let state = seed;
    return () => {
      state = (1664525 * state + 1013904223) % 2 ** 32;
      return state / 2 ** 32;
    };
  }

  function softmax(logits) {
    const parts = logits.map(Math.exp);
    const sum = parts.reduce((a, b) => a + b);
    return parts.map(part => part / sum);
  }

  function csv() {
    const roll = dice(25);
    const lines = [["label", ...CLASSES.map(name => `p_${name}`)].join(",")];
    for (let row = 0; row < ROWS; row++) {
      const centre = 5.5 * roll() - 0.75;
      const logits = CLASSES.map((_, k) => -1.1 * Math.abs(k - centre));
      let left = roll();
      const truth = softmax(logits).findIndex(p => (left -= p) < 0);
      const said = softmax(logits.map(z => 2 * z + 2.6 * (roll() - 0.5)));
      lines.push([CLASSES[truth < 0 ? CLASSES.length - 1 : truth], ...said.map(p => p.toFixed(7))].join(","));
    }
    return `${lines.join("\n")}\n`;
  }

  return Object.freeze({ csv });
})();
