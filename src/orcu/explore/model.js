"use strict";
/* Loss, gradients and equilibrium, without any drawing. Formulas and branches are those of orcu.kernels, orcu.geometry,
   orcu.losses and orcu.theory.equilibrium, and tests compare every number with the library. Class numbers start at 0. */
const orcuModel = (() => {
  const REMOTE = 80; // as in orcu.theory.equilibrium: beyond it P_k is negligible against A_k
  const MAX_STEPS = 200;

  const distances = {
    squared: d => d * d,
    absolute: d => d,
    huber: d => (d <= 1 ? d * d / 2 : d - 0.5),
    exponential: d => Math.min(Math.exp(d), Number.MAX_VALUE),
  };

  const sum = values => values.reduce((total, value) => total + value, 0);
  const sigmoid = r => (r >= 0 ? 1 / (1 + Math.exp(-r)) : Math.exp(r) / (1 + Math.exp(r)));

  function logAddExp(a, b) {
    const high = Math.max(a, b);
    return high === -Infinity ? high : high + Math.log1p(Math.exp(Math.min(a, b) - high));
  }

  /* Log-softmax; the largest logit is subtracted first to avoid overflow. */
  function logProbs(z) {
    const top = Math.max(...z);
    const logTotal = Math.log(sum(z.map(value => Math.exp(value - top))));
    return z.map(value => value - top - logTotal);
  }

  /* Logarithms of the soft targets (Eq. 1). */
  function logTargets(classes, label, distance) {
    const phi = Array.from({ length: classes }, (_, k) => distances[distance](Math.abs(label - k)));
    return logProbs(phi.map(value => -value));
  }

  /* Logit of the farther minus the nearer class, relative to the label (Eq. 3). */
  function directedGaps(z, label) {
    return z.slice(1).map((value, k) => (k >= label ? value - z[k] : z[k] - value));
  }

  function isUnimodal(values) {
    return directedGaps(values, values.indexOf(Math.max(...values))).every(r => r <= 0);
  }

  /* Penalties of a directed gap r, and their derivatives. */
  const regularizers = {
    lbe: {
      value: (r, s) => {
        const inside = Math.min(r, -1 / (s * s));
        return s * (r - inside) - Math.log(-inside) / s;
      },
      derivative: (r, s) => -1 / (s * Math.min(r, -1 / (s * s))),
    },
    hinge: {
      value: (r, s) => Math.max(r + 1 / (s * s), 0),
      derivative: (r, s) => (r > -1 / (s * s) ? 1 : 0),
    },
    softplus: {
      value: r => Math.max(r, 0) + Math.log1p(Math.exp(-Math.abs(r))),
      derivative: sigmoid,
    },
    none: { value: () => 0, derivative: () => 0 },
  };

  /* Values and gradients of SoftCE, the regularizer and their sum at the given logits. */
  function evaluate({ logits, label, scale, distance, regularizer }) {
    const targets = logTargets(logits.length, label, distance).map(Math.exp);
    const logP = logProbs(logits);
    const probs = logP.map(Math.exp);
    const softce = {
      value: -sum(targets.map((t, k) => t * logP[k])),
      gradient: probs.map((p, k) => p - targets[k]),
    };
    const gaps = directedGaps(logits, label);
    const { value, derivative } = regularizers[regularizer];
    const derivatives = gaps.map(r => derivative(r, scale));
    const penalty = {
      value: sum(gaps.map(r => value(r, scale))),
      gradient: logits.map(() => 0),
    };
    derivatives.forEach((size, k) => { // positive for the far logit of the gap, negative for the near one
      const signed = k >= label ? size : -size;
      penalty.gradient[k + 1] += signed;
      penalty.gradient[k] -= signed;
    });
    const total = {
      value: softce.value + penalty.value,
      gradient: softce.gradient.map((g, k) => g + penalty.gradient[k]),
    };
    return { targets, probs, gaps, derivatives, softce, penalty, total, unimodal: isUnimodal(probs) };
  }

  /* One step of plain gradient descent. */
  function step(state, size) {
    const { gradient } = evaluate(state).total;
    return state.logits.map((z, k) => z - size * gradient[k]);
  }

  /* Sums over the classes beyond each gap, from the outside in, so that small tails stay exact. */
  function tails(values, label, add) {
    const sums = new Array(values.length - 1);
    for (let k = values.length - 2; k >= label; k--) {
      sums[k] = k === values.length - 2 ? values[k + 1] : add(sums[k + 1], values[k + 1]);
    }
    for (let k = 0; k < label; k++) sums[k] = k === 0 ? values[0] : add(sums[k - 1], values[k]);
    return sums;
  }

  /* Logits with outward gaps u = -r, and 0 at the label. */
  function logitsOf(u, label) {
    const z = new Array(u.length + 1).fill(0);
    for (let k = label; k < u.length; k++) z[k + 1] = z[k] - u[k];
    for (let k = label - 1; k >= 0; k--) z[k] = z[k + 1] - u[k];
    return z;
  }

  /* Gaussian elimination with pivoting; overwrites the matrix and the right side. */
  function solve(matrix, right) {
    const n = right.length;
    for (let i = 0; i < n; i++) {
      let pivot = i;
      for (let j = i + 1; j < n; j++) {
        if (Math.abs(matrix[j][i]) > Math.abs(matrix[pivot][i])) pivot = j;
      }
      [matrix[i], matrix[pivot]] = [matrix[pivot], matrix[i]];
      [right[i], right[pivot]] = [right[pivot], right[i]];
      for (let j = i + 1; j < n; j++) {
        const factor = matrix[j][i] / matrix[i][i];
        for (let k = i; k < n; k++) matrix[j][k] -= factor * matrix[i][k];
        right[j] -= factor * right[i];
      }
    }
    for (let i = n - 1; i >= 0; i--) {
      for (let k = i + 1; k < n; k++) right[i] -= matrix[i][k] * right[k];
      right[i] /= matrix[i][i];
    }
    return right;
  }

  /* Newton's method on the outward gaps of a smooth objective: A_k - P_k = q(u_k) for every gap.
     `sizes` scales the steps, so that the system stays well-conditioned for small tails. */
  function newton({ start, remote, logTail, label, gradient: q, hessian: curvature, sizes, positive }) {
    const near = start.map((_, k) => k).filter(k => !remote[k]);
    const mass = logTail.map(Math.exp);
    const residuals = u => {
      const beyond = tails(logProbs(logitsOf(u, label)).map(Math.exp), label, (a, b) => a + b);
      return { beyond, values: near.map(k => mass[k] - beyond[k] - q(u[k])) };
    };
    const largest = values => Math.max(0, ...values.map((value, i) => Math.abs(value) / mass[near[i]]));
    let u = start;
    let residual = 0;
    for (let round = 0; near.length > 0 && round < MAX_STEPS; round++) {
      const size = sizes(u);
      const here = residuals(u);
      const hessian = near.map(k => near.map(l => {
        const sameSide = (k >= label) === (l >= label);
        const farther = k >= label ? Math.max(k, l) : Math.min(k, l);
        const joint = (sameSide ? here.beyond[farther] : 0) - here.beyond[k] * here.beyond[l];
        return joint * size[k] * size[l] + (k === l ? curvature(u[k], size[k]) : 0);
      }));
      const gradient = here.values.map((value, i) => value * size[near[i]]);
      const w = solve(hessian, gradient.map(value => -value))
        .map(value => Math.min(Math.max(value, -1e100), 1e100));
      const slope = sum(gradient.map((value, i) => value * w[i]));
      // a gap of the barrier stays positive: a step removes at most nine tenths of it
      const shrink = positive ? Math.max(...w.map(value => -value)) : 0;
      let t = Math.min(1, 0.9 / Math.max(shrink, 1e-300));
      let candidate = u;
      let there = here;
      for (let halving = 0; halving < 400; halving++, t /= 2) {
        candidate = u.slice();
        near.forEach((k, i) => { candidate[k] = u[k] + t * size[k] * w[i]; });
        there = residuals(candidate);
        const ahead = sum(there.values.map((value, i) => value * size[near[i]] * w[i]));
        if (ahead <= -0.25 * slope) break;
      }
      u = candidate;
      residual = largest(there.values);
      if (Math.max(...w.map(Math.abs)) < 1e-14 || residual < 1e-14) break;
    }
    return { u, residual };
  }

  function lbeGaps(logMass, label, scale) {
    const logS = Math.log(scale);
    const margin = 1 / scale / scale;
    const logTail = tails(logMass, label, logAddExp);
    const logFar = logTail.map(value => -logS - value); // log u where P = 0
    const bounded = logTail.map(value => value <= logS);
    const remote = logTail.map((value, k) => bounded[k] && Math.exp(logFar[k]) + value > REMOTE);
    // start at the gaps of the anchor, widened where 1/(s A_k) is a lower bound of the solution
    const anchorGaps = directedGaps(logMass, label).map(r => -r);
    const start = anchorGaps.map((gap, k) =>
      remote[k] ? Infinity : gap + (bounded[k] ? Math.exp(logFar[k]) : 0));
    const { u, residual } = newton({
      start, remote, logTail, label,
      gradient: gap => (gap > margin ? 1 / (scale * gap) : scale),
      hessian: (gap, size) => (gap > margin ? (size / gap) ** 2 / scale : 0),
      sizes: gaps => gaps,
      positive: true,
    });
    const logGaps = u.map((gap, k) => (remote[k] ? logFar[k] : Math.log(gap)));
    const gaps = u.map((gap, k) => -(remote[k] ? Math.exp(logFar[k]) : gap));
    return { gaps, logGaps, residual, logProbs: logProbs(logitsOf(u, label)) };
  }

  function softplusGaps(logMass, label) {
    const logTail = tails(logMass, label, logAddExp);
    const remote = logTail.map(value => value < -600); // there u = -log A_k exactly
    // start to the left of the solution, where Newton's method on an exponential cannot overshoot
    const anchorGaps = directedGaps(logMass, label).map(r => -r);
    const start = logTail.map((value, k) => (remote[k] ? -value : Math.max(anchorGaps[k], -value)));
    const { u, residual } = newton({
      start, remote, logTail, label,
      gradient: gap => sigmoid(-gap),
      hessian: (gap, size) => sigmoid(gap) * sigmoid(-gap) * size * size,
      sizes: () => logTail.map(value => Math.exp(-Math.max(value, -600) / 2)),
      positive: false,
    });
    return {
      gaps: u.map(gap => -gap), logGaps: u.map(Math.log), residual,
      logProbs: logProbs(logitsOf(u, label)),
    };
  }

  /* The derivative 1 of the hinge exceeds every A_k - P_k, so its minimiser has the margin m at every gap: it is the
     point closest to the anchor with u >= m. With p_k = c_k e^{-m d_k}, c decreases outwards, and neighbours in the wrong
     order share one c: pool adjacent violators, from both sides into the label. */
  function hingeGaps(logMass, label, scale) {
    const margin = 1 / (scale * scale);
    const block = k => ({ classes: [k], mass: logMass[k], weight: -margin * Math.abs(k - label) });
    const level = part => part.mass - part.weight;
    const join = (a, b) => ({
      classes: a.classes.concat(b.classes),
      mass: logAddExp(a.mass, b.mass),
      weight: logAddExp(a.weight, b.weight),
    });
    const sides = [1, -1].map(direction => {
      const blocks = [];
      for (let k = label + direction; k >= 0 && k < logMass.length; k += direction) {
        blocks.push(block(k));
        while (blocks.length > 1 && level(blocks.at(-1)) > level(blocks.at(-2))) {
          const outer = blocks.pop();
          blocks.push(join(blocks.pop(), outer));
        }
      }
      return blocks;
    });
    let center = block(label);
    for (;;) {
      const high = sides.filter(blocks => blocks.length > 0 && level(blocks[0]) > level(center))
        .sort((a, b) => level(b[0]) - level(a[0]))[0];
      if (!high) break;
      center = join(center, high.shift());
    }
    const z = new Array(logMass.length);
    [center, ...sides[0], ...sides[1]].forEach(part =>
      part.classes.forEach(k => { z[k] = level(part) - margin * Math.abs(k - label); }));
    const gaps = directedGaps(z, label);
    return { gaps, logGaps: gaps.map(r => Math.log(-r)), residual: 0, logProbs: logProbs(z) };
  }

  /* Minimiser of SoftCE plus the regularizer over free logits (Eq. 23 for LBE). */
  function equilibrium({ classes, label, scale, distance, regularizer }) {
    const logMass = logTargets(classes, label, distance);
    const anchor = logMass.map(Math.exp);
    const anchorGaps = directedGaps(logMass, label);
    const solution = {
      lbe: () => lbeGaps(logMass, label, scale),
      hinge: () => hingeGaps(logMass, label, scale),
      softplus: () => softplusGaps(logMass, label),
      none: () => ({
        gaps: anchorGaps, logGaps: anchorGaps.map(r => Math.log(-r)), residual: 0, logProbs: logMass,
      }),
    }[regularizer]();
    return { ...solution, probs: solution.logProbs.map(Math.exp), anchor, anchorGaps };
  }

  /* The terms as a function of one gap with all other gaps fixed: the classes beyond it move together. */
  function landscape(state, gap, values) {
    const { logits, label, scale, distance, regularizer } = state;
    const targets = logTargets(logits.length, label, distance).map(Math.exp);
    const now = directedGaps(logits, label)[gap];
    const isBeyond = logits.map((_, k) => (gap >= label ? k > gap : k <= gap));
    const softce = values.map(r => {
      const logP = logProbs(logits.map((z, k) => (isBeyond[k] ? z + r - now : z)));
      return -sum(targets.map((t, k) => t * logP[k]));
    });
    const penalty = values.map(r => regularizers[regularizer].value(r, scale));
    return { softce, penalty, total: softce.map((value, i) => value + penalty[i]) };
  }

  /* The r between low and high with the lowest loss of a gap; the derivative is monotone, so bisection is enough. */
  function landscapeMinimum(state, gap, low, high) {
    const { logits, label, scale, distance, regularizer } = state;
    const mass = tails(logTargets(logits.length, label, distance).map(Math.exp), label, (a, b) => a + b);
    const now = directedGaps(logits, label)[gap];
    const logTail = tails(logits, label, logAddExp)[gap];
    const logRest = logits.filter((_, k) => (gap >= label ? k <= gap : k > gap)).reduce(logAddExp);
    const derivative = r => sigmoid(logTail - logRest + r - now) - mass[gap]
      + regularizers[regularizer].derivative(r, scale);
    if (derivative(low) >= 0) return low;
    if (derivative(high) <= 0) return high;
    for (let halving = 0; halving < 100; halving++) {
      const middle = (low + high) / 2;
      if (derivative(middle) > 0) high = middle; else low = middle;
    }
    return (low + high) / 2;
  }

  return Object.freeze({
    distances: Object.keys(distances),
    regularizers: Object.keys(regularizers),
    logTargets, logProbs, directedGaps, isUnimodal, evaluate, step, logitsOf, equilibrium, landscape,
    landscapeMinimum,
  });
})();
window.orcuModel = orcuModel;
