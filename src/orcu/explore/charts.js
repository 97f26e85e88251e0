"use strict";
/* Drawing: each function fills one SVG. Charts are drawn in screen pixels, so text has the same size at any width. */
const orcuCharts = (() => {
  const LEFT = 46;
  const RIGHT = 6;
  const TOP = 14;

  const SUPERSCRIPTS = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹";
  const superscript = power => [...power].map(c => SUPERSCRIPTS["-0123456789".indexOf(c)]).join("");
  const signed = text => text
    .replace(/e\+?(-?\d+)$/, (_, power) => ` × 10${superscript(power)}`)
    .replace(/^-/, "\u2212");

  /* A number as text: `digits` decimals, or a power of ten for very large and small numbers. */
  function shown(value, digits = 3) {
    if (!Number.isFinite(value)) return signed(String(value)).replace("Infinity", "∞");
    const size = Math.abs(value);
    if (size >= 1e5 || (size > 0 && size < 0.5 * 10 ** -digits)) return signed(value.toExponential(1));
    return signed(value.toFixed(size >= 1000 ? 0 : size >= 100 ? Math.min(digits, 1) : digits));
  }

  /* Like `shown`, without trailing zeros, for axes and settings. */
  function plain(value) {
    const size = Math.abs(value);
    if (size >= 1e5 || (size > 0 && size < 1e-3)) return signed(Number(value.toPrecision(4)).toExponential());
    return signed(String(Number(value.toPrecision(4))));
  }

  function add(parent, name, attributes = {}, text = null) {
    const element = document.createElementNS(parent.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== null) element.textContent = text;
    parent.append(element);
    return element;
  }

  const tip = (element, text) => { add(element, "title", {}, text); return element; };

  function ticks(low, high) {
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map(m => m * power).find(size => size >= rough * 0.999);
    const values = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) values.push(i * step);
    return values;
  }

  /* The smallest round number of at least the value. */
  function roundUp(value) {
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map(m => m * power).find(candidate => candidate >= value * (1 - 1e-12));
  }

  /* A new layer with horizontal grid lines, below the handles of the chart. */
  function frame(svg, { low, high, height = 230, bottom = 24, columns = 0, name, write = plain }) {
    const width = Math.max(svg.parentNode.clientWidth, 220);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    if (name) { svg.setAttribute("role", "img"); svg.setAttribute("aria-label", name); }
    svg.querySelector(".layer")?.remove();
    const layer = document.createElementNS(svg.namespaceURI, "g");
    layer.setAttribute("class", "layer");
    svg.prepend(layer);
    const inner = width - LEFT - RIGHT;
    const column = columns ? inner / columns : 0;
    const y = value => TOP + (high - value) / (high - low) * (height - TOP - bottom);
    const under = add(layer, "g");
    for (const tick of ticks(low, high)) {
      const at = y(tick);
      add(layer, "line", { x1: LEFT, x2: width - RIGHT, y1: at, y2: at, class: tick === 0 ? "zero" : "grid" });
      add(layer, "text", { x: LEFT - 7, y: at + 4, "text-anchor": "end", class: "soft" }, write(tick));
    }
    return {
      layer, under, width, height, left: LEFT, right: width - RIGHT, top: TOP, floor: height - bottom, y, column,
      middle: k => LEFT + (k + 0.5) * column,
      border: k => LEFT + (k + 1) * column, // between class k and k + 1
    };
  }

  function classAxis(f, classes, label) {
    add(f.under, "rect", {
      x: f.middle(label) - f.column / 2, width: f.column, y: f.top - 8, height: f.floor - f.top + 8, rx: 4, class: "band",
    });
    const named = f.column >= 52;
    for (let k = 0; k < classes; k++) {
      const text = k !== label ? String(k) : named ? `${k} label` : `${k}`;
      add(f.layer, "text", {
        x: f.middle(k), y: f.floor + 17, "text-anchor": "middle", class: k === label ? "strong" : "soft",
      }, text);
    }
  }

  function bar(f, { x, width, value, role, text }) {
    const from = f.y(0);
    const to = f.y(value);
    const height = Math.max(Math.abs(to - from), 0.75);
    return tip(add(f.layer, "rect", {
      x: x - width / 2, width, y: Math.min(from, to), height, rx: Math.min(2.5, height / 2), class: `${role} fill`,
    }), text);
  }

  /* The logits, a line through them, and their positions after a gradient step. */
  function logits(svg, { values, next, label, limit }) {
    const f = frame(svg, { low: -limit, high: limit, height: 270, columns: values.length });
    classAxis(f, values.length, label);
    const path = values.map((z, k) => `${k ? "L" : "M"}${f.middle(k)} ${f.y(z)}`).join("");
    add(f.layer, "path", { d: path, class: "faint" });
    next.forEach((z, k) => {
      const to = f.y(Math.min(Math.max(z, -limit), limit));
      if (Math.abs(to - f.y(values[k])) > 1) {
        add(f.layer, "line", { x1: f.middle(k), x2: f.middle(k), y1: f.y(values[k]), y2: to, class: "total stroke" });
      }
      tip(add(f.layer, "circle", { cx: f.middle(k), cy: to, r: 5.5, class: "total ring" }),
        `class ${k}: ${shown(z)} after one step`);
    });
    return f;
  }

  function probs(svg, { probs: p, targets, label }) {
    const f = frame(svg, {
      low: 0, high: 1, height: 270, columns: p.length,
      name: `Probabilities: ${p.map((value, k) => `class ${k} ${value.toFixed(3)}`).join(", ")}`,
    });
    classAxis(f, p.length, label);
    const width = Math.min(f.column * 0.6, 46);
    p.forEach((value, k) => {
      bar(f, { x: f.middle(k), width, value, role: "now", text: `class ${k}: p = ${shown(value)}, target ${shown(targets[k])}` });
      const at = f.y(targets[k]);
      const half = width / 2 + Math.min(5, f.column * 0.1);
      add(f.layer, "line", { x1: f.middle(k) - half, x2: f.middle(k) + half, y1: at, y2: at, class: "softce stroke" })
        .setAttribute("stroke-width", 3);
      const top = f.y(value);
      const crossed = at > top - 20 && at < top + 2; // the line of the target would cross the number
      add(f.layer, "text", {
        x: f.middle(k), y: (crossed ? Math.min(at, top) : top) - 6, "text-anchor": "middle", class: f.column < 34 ? "small" : "",
      }, value.toFixed(2).replace(/^0/, f.column < 34 ? "" : "0"));
    });
  }

  function arrow(f, x, value, role, text) {
    const from = f.y(0);
    const to = f.y(value);
    const length = Math.abs(to - from);
    const group = tip(add(f.layer, "g", { class: role }), text);
    if (length < 1.5) {
      add(group, "circle", { cx: x, cy: from, r: 2.2, class: "fill" });
      return;
    }
    const head = Math.min(8, length);
    const sign = Math.sign(to - from);
    add(group, "line", { x1: x, x2: x, y1: from, y2: to - sign * head * 0.8, class: "stroke" }).style.strokeWidth = "3px";
    add(group, "path", { d: `M${x} ${to}l-5.5 ${-sign * head}h11z`, class: "fill" });
  }

  function forces(svg, { softce, penalty, total, label, penaltyName }) {
    const largest = Math.max(...softce.concat(penalty, total).map(Math.abs));
    const limit = roundUp(Math.max(largest, 1e-6) * 1.04);
    const f = frame(svg, {
      low: -limit, high: limit, columns: total.length,
      name: `Descent forces of the sum: ${total.map((g, k) => `class ${k} ${shown(-g)}`).join(", ")}`,
    });
    classAxis(f, total.length, label);
    const apart = Math.min(16, f.column / 3.6);
    total.forEach((_, k) => {
      arrow(f, f.middle(k) - apart, -softce[k], "softce", `class ${k}, SoftCE: ${shown(-softce[k])}`);
      arrow(f, f.middle(k), -penalty[k], "penalty", `class ${k}, ${penaltyName}: ${shown(-penalty[k])}`);
      arrow(f, f.middle(k) + apart, -total[k], "total", `class ${k}, sum: ${shown(-total[k])}`);
    });
  }

  function gaps(svg, { gaps: r, label, margin, chosen, onChoose }) {
    const deepest = Math.min(...r, 0);
    const highest = Math.max(...r, 0);
    const size = Math.max(highest - deepest, 0.5);
    const marginShown = margin !== null && margin <= 2.5 * Math.max(size, 1);
    const low = Math.min(deepest - 0.14 * size, marginShown ? -1.25 * margin : 0);
    const high = highest + (highest > 0 ? 0.16 : 0.22) * (highest - low);
    const f = frame(svg, {
      low, high, columns: r.length + 1,
      name: `Directed gaps: ${r.map((value, k) => `${k} to ${k + 1} ${shown(value)}`).join(", ")}`,
    });
    add(f.under, "rect", { x: f.left, width: f.right - f.left, y: f.top - 8, height: f.y(0) - f.top + 8, class: "zone" });
    const onTheRight = label === 0 || r[0] > 0; // away from the line of the label and the first bar
    add(f.layer, "text", {
      x: onTheRight ? f.right - 6 : f.left + 6, y: f.top + 4, "text-anchor": onTheRight ? "end" : "start", class: "soft small",
    }, "violated");
    if (marginShown) {
      const at = f.y(-margin);
      add(f.layer, "line", { x1: f.left, x2: f.right, y1: at, y2: at, class: "margin" });
    }
    const width = Math.min(f.column * 0.5, 40);
    const placed = [];
    r.forEach((value, k) => {
      const missed = value > 0 || (margin !== null && value > -margin);
      const group = add(f.layer, "g", { class: "pick" });
      add(group, "rect", { x: f.border(k) - f.column / 2, width: f.column, y: f.top - 8, height: f.floor - f.top + 30, class: "hit" });
      group.append(bar(f, {
        x: f.border(k), width, value, role: missed ? "penalty" : "now", text: `gap ${k}|${k + 1}: r = ${shown(value)}`,
      }));
      const tiny = f.column < 40;
      const number = shown(value, tiny ? 1 : 2);
      const at = { x: f.border(k), y: value > 0 ? f.y(value) - 5 : f.y(value) + 14, half: 3.8 * number.length };
      // in narrow columns some numbers do not fit; the tooltip and the table have all of them
      const crowded = placed.some(other => Math.abs(other.x - at.x) < other.half + at.half && Math.abs(other.y - at.y) < 14);
      if (!crowded) {
        placed.push(at);
        add(group, "text", { x: at.x, y: at.y, "text-anchor": "middle", class: tiny ? "small" : "" }, number);
      }
      if (!tiny || k === chosen) {
        add(group, "text", {
          x: f.border(k), y: f.floor + 17, "text-anchor": "middle", class: k === chosen ? "strong" : "soft",
        }, tiny ? "|" : `${k}|${k + 1}`);
      }
      group.addEventListener("click", () => onChoose(k));
    });
    for (let k = 0; f.column < 40 && k <= r.length; k++) { // too narrow for the names of the gaps: show the classes
      add(f.layer, "text", { x: f.middle(k), y: f.floor + 17, "text-anchor": "middle", class: "soft" }, String(k));
    }
    // the label is between its two gaps
    add(f.under, "rect", { x: f.middle(label) - 1.5, width: 3, y: f.top - 8, height: f.floor - f.top + 8, class: "band" });
    add(f.layer, "path", { d: `M${f.middle(label)} ${f.floor - 8}l-5 8h10z`, class: "softce fill" });
    return marginShown;
  }

  function equilibrium(svg, { anchor, equilibrium: probs, now, label }) {
    const f = frame(svg, {
      low: 0, high: 1, columns: anchor.length,
      name: `Anchor and equilibrium: ${anchor.map((a, k) => `class ${k} ${a.toFixed(3)} and ${probs[k].toFixed(3)}`).join(", ")}`,
    });
    classAxis(f, anchor.length, label);
    const width = Math.min(f.column * 0.27, 26);
    anchor.forEach((a, k) => {
      const x = f.middle(k);
      bar(f, { x: x - width * 0.55, width, value: a, role: "softce", text: `class ${k}: anchor ${shown(a)}` });
      bar(f, { x: x + width * 0.55, width, value: probs[k], role: "total", text: `class ${k}: equilibrium ${shown(probs[k])}` });
      for (const [value, side] of [[a, -1], [probs[k], 1]]) {
        if (f.column >= 58 && value >= 0.005) {
          // shifted outwards, because the dot is between the two
          const at = { x: x + side * (width * 0.55 + 5), y: f.y(value) - 5, "text-anchor": "middle", class: "small soft" };
          add(f.layer, "text", at, value.toFixed(2).replace(/^0/, ""));
        }
      }
      const dot = add(f.layer, "circle", { cx: x, cy: f.y(now[k]), r: Math.min(4.5, f.column * 0.12), class: "now fill" });
      dot.style.stroke = "var(--panel)";
      tip(dot, `class ${k}: now ${shown(now[k])}`);
    });
  }

  function landscape(svg, { values, softce, penalty, total, now, lowest, margin, name }) {
    const all = softce.concat(penalty, total);
    const low = Math.min(...all);
    const high = Math.max(...all);
    const pad = Math.max(high - low, 1e-9) * 0.05;
    const f = frame(svg, { low: low - pad, high: high + pad, height: 230, bottom: 36, name });
    const first = values[0];
    const last = values.at(-1);
    const x = r => f.left + (r - first) / (last - first) * (f.right - f.left);
    add(f.under, "rect", { x: x(0), width: Math.max(x(last) - x(0), 0), y: f.top - 8, height: f.floor - f.top + 8, class: "zone" });
    if (f.right - x(0) > 60) add(f.layer, "text", { x: x(0) + 6, y: f.top + 4, class: "soft small" }, "violated");
    for (const tick of ticks(first, last)) {
      add(f.layer, "text", { x: x(tick), y: f.floor + 16, "text-anchor": "middle", class: "soft" }, plain(tick));
    }
    add(f.layer, "text", { x: (f.left + f.right) / 2, y: f.floor + 32, "text-anchor": "middle", class: "soft small" }, "gap r");
    if (margin !== null && -margin > first) {
      add(f.layer, "line", { x1: x(-margin), x2: x(-margin), y1: f.top - 8, y2: f.floor, class: "margin" });
    }
    for (const [role, curve] of [["softce", softce], ["penalty", penalty], ["total", total]]) {
      const d = curve.map((value, i) => `${i ? "L" : "M"}${x(values[i]).toFixed(2)} ${f.y(value).toFixed(2)}`).join("");
      const line = add(f.layer, "path", { d, class: `${role} stroke` });
      if (role === "total") line.style.strokeWidth = "3px";
    }
    if (lowest !== null) {
      tip(add(f.layer, "circle", { cx: x(lowest.r), cy: f.y(lowest.value), r: 5.5, class: "total ring" }),
        `lowest at r = ${shown(lowest.r)}`);
    }
    const dot = add(f.layer, "circle", { cx: x(now), cy: f.y(0), r: 6, class: "now fill" });
    dot.style.stroke = "var(--panel)";
    tip(dot, `now: r = ${shown(now)}`);
  }

  const SPARSE = 30; // bins with fewer rows are uncertain and drawn hollow
  const share = value => `${plain(100 * value)}\u00a0%`;

  /* Axis of probabilities below a chart, with the outer numbers inside the chart. */
  function shareAxis(f) {
    const x = value => f.left + value * (f.right - f.left);
    for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
      const anchor = tick === 0 ? "start" : tick === 1 ? "end" : "middle";
      add(f.layer, "text", { x: x(tick), y: f.floor + 15, "text-anchor": anchor, class: "soft small" }, share(tick));
    }
    return x;
  }

  /* Observed frequency against predicted probability with 95 % intervals, and the rows of each bin as bars below. */
  function reliability(svg, { bins, count, xlabel, name }) {
    const f = frame(svg, { low: 0, high: 1, height: 300, bottom: 74, name, write: share });
    const x = shareAxis(f);
    add(f.layer, "line", { x1: x(0), x2: x(1), y1: f.y(0), y2: f.y(1), class: "margin" });
    const dense = bins.filter(bin => bin.rows >= SPARSE);
    const path = dense.map((bin, i) => `${i ? "L" : "M"}${x(bin.predicted).toFixed(2)} ${f.y(bin.observed).toFixed(2)}`).join("");
    if (path) add(f.layer, "path", { d: path, class: "correct stroke" });
    const most = Math.max(...bins.map(bin => bin.rows));
    const width = (x(1) - x(0)) / count;
    for (const bin of bins) {
      const tooltip = `predicted ${share(bin.predicted)}, observed ${share(bin.observed)} (${share(bin.low)} to ${share(bin.high)}), `
        + `${bin.rows.toLocaleString("en-US")} rows`;
      const high = Math.max(26 * bin.rows / most, 0.75);
      tip(add(f.layer, "rect", {
        x: x(0) + (bin.bin + 0.05) * width, width: 0.9 * width, y: f.floor + 50 - high, height: high, class: "quiet fill",
      }), tooltip);
      add(f.layer, "line", { x1: x(bin.predicted), x2: x(bin.predicted), y1: f.y(bin.low), y2: f.y(bin.high), class: "correct whisker" });
      tip(add(f.layer, "circle", {
        cx: x(bin.predicted), cy: f.y(bin.observed), r: 4.5, class: bin.rows >= SPARSE ? "correct fill" : "correct ring",
      }), tooltip);
    }
    add(f.layer, "text", { x: f.left, y: f.floor + 66, class: "soft small" },
      `${xlabel}; bars: rows, at most ${most.toLocaleString("en-US")}`);
  }

  /* Histogram of the confidence, split into correct and wrong predictions. */
  function confidences(svg, { table, confidence, accuracy, name }) {
    const rows = table.weight.reduce((a, b) => a + b);
    const f = frame(svg, {
      low: 0, high: roundUp(1.02 * Math.max(...table.weight) / rows), height: 300, bottom: 40, name, write: share,
    });
    const x = shareAxis(f);
    const width = (x(1) - x(0)) / table.weight.length;
    table.weight.forEach((all, bin) => {
      const correct = table.outcome[bin];
      for (const [role, from, to] of [["correct", 0, correct], ["wrong", correct, all]]) {
        if (to > from) {
          tip(add(f.layer, "rect", {
            x: x(0) + (bin + 0.05) * width, width: 0.9 * width, y: f.y(to / rows), height: f.y(from / rows) - f.y(to / rows), class: `${role} fill`,
          }), `${(to - from).toLocaleString("en-US")} rows ${role}`);
        }
      }
    });
    for (const [value, role] of [[confidence, "confidence"], [accuracy, "margin"]]) {
      add(f.layer, "line", { x1: x(value), x2: x(value), y1: f.top - 8, y2: f.floor, class: role });
    }
    add(f.layer, "text", { x: f.left, y: f.floor + 33, class: "soft small" }, "confidence (largest probability)");
  }

  const shorten = (text, length) => (text.length <= length ? text
    : `${text.slice(0, length >> 1)}…${text.slice(text.length - (length - (length >> 1) - 1))}`);

  /* Confusion matrix: rows by true and predicted class, shaded by the share of the true class. */
  function confusion(svg, { counts, names, name }) {
    const width = Math.max(svg.parentNode.clientWidth, 220);
    const size = names.length;
    const letters = Math.min(12, Math.max(...names.map(text => text.length)));
    const left = 22 + 7 * letters;
    const cell = Math.min((width - left - RIGHT) / size, 64);
    const rotated = letters * 7 > cell;
    const floor = TOP + cell * size;
    const bottom = rotated ? 24 + 7 * letters : 34;
    svg.setAttribute("viewBox", `0 0 ${width} ${floor + bottom}`);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", name);
    svg.replaceChildren();
    const step = Math.ceil(16 * size / (cell * size)); // names of many classes must not overlap
    for (let i = 0; i < size; i++) {
      const rows = counts.slice(i * size, (i + 1) * size).reduce((a, b) => a + b);
      for (let j = 0; j < size; j++) {
        const count = counts[i * size + j];
        const part = rows ? count / rows : 0;
        const box = tip(add(svg, "rect", {
          x: left + j * cell, y: TOP + i * cell, width: 0.96 * cell, height: 0.96 * cell, class: `${i === j ? "correct" : "wrong"} fill`,
        }), `true ${names[i]}, predicted ${names[j]}: ${count.toLocaleString("en-US")} rows, ${share(part)} of the true class`);
        box.setAttribute("fill-opacity", (0.05 + 0.65 * part).toFixed(3));
        const digits = count.toLocaleString("en-US");
        if (count && size <= 12 && cell >= 7 * digits.length) {
          add(svg, "text", { x: left + (j + 0.48) * cell, y: TOP + (i + 0.48) * cell + 4, "text-anchor": "middle", class: "small" }, digits);
        }
      }
      if (i % step) continue;
      const middle = (i + 0.48) * cell;
      add(svg, "text", { x: left - 6, y: TOP + middle + 4, "text-anchor": "end", class: "soft small" }, shorten(names[i], 12));
      const at = { x: left + middle + (rotated ? 4 : 0), y: floor + (rotated ? 6 : 14) };
      const tilt = rotated ? { "text-anchor": "end", transform: `rotate(-90 ${at.x} ${at.y})` } : { "text-anchor": "middle" };
      add(svg, "text", { ...at, ...tilt, class: "soft small" }, shorten(names[i], 12));
    }
    add(svg, "text", { x: left + cell * size / 2, y: floor + bottom - 2, "text-anchor": "middle", class: "soft small" }, "predicted class");
    const x = 10;
    const y = TOP + cell * size / 2;
    add(svg, "text", { x, y, "text-anchor": "middle", transform: `rotate(-90 ${x} ${y})`, class: "soft small" }, "true class");
  }

  return Object.freeze({
    add, shown, plain, logits, probs, forces, gaps, equilibrium, landscape, reliability, confidences, confusion,
  });
})();
