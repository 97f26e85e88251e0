"use strict";
/* The tab of the loss: its state, the changes of the state, and the rendering. */
(() => {
  const { shown, plain } = orcuCharts;
  const $ = id => document.getElementById(id);
  const START = JSON.parse($("start").textContent);
  const NAMES = { lbe: "LBE", hinge: "Hinge", softplus: "SoftPlus", none: "None" };
  const SCALES = [0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50];
  const RATES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5];
  const LIMITS = [3, 5, 10, 20, 50, 100, 200, 500, 1000]; // of the logit axis
  const MAX_CLASSES = Number($("num-classes").max);
  const MAX_LOGIT = LIMITS.at(-1);
  const MAX_PRESET_GAP = 40; // beyond it a probability is below 1e-17 of its neighbour's
  const TOLERANCE = 1e-3; // the descent ends when no gradient is larger
  const MAX_STEPS = 8000;

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const rounded = (value, digits) => Number(value.toFixed(digits));
  const nearest = (list, value) => list.reduce((best, candidate, i) =>
    (Math.abs(Math.log(candidate / value)) < Math.abs(Math.log(list[best] / value)) ? i : best), 0);
  const text = (id, value) => { $(id).textContent = value; };

  let state = null;
  let solution = null; // equilibrium of the current settings
  let limit = LIMITS[0];
  let drag = null; // { k, offset } while a handle is dragged
  let descent = null; // { steps, frame } while the descent runs
  let hashTimer = 0;

  /* ---- initial state and presets ---- */

  const centred = z => {
    const middle = (Math.max(...z) + Math.min(...z)) / 2;
    return z.map(value => value - middle);
  };
  const fromGaps = (gaps, label) => centred(orcuModel.logitsOf(gaps.map(r => Math.min(-r, MAX_PRESET_GAP)), label));
  const settingsOf = s => ({
    classes: s.logits.length, label: s.label, scale: s.scale, distance: s.distance, regularizer: s.regularizer,
  });
  const each = (classes, value) => Array.from({ length: classes }, (_, k) => rounded(value(k), 4));
  const presets = {
    violated: ({ classes, label }) => {
      const neighbour = label + 1 < classes ? label + 1 : label - 1;
      return each(classes, k => 0.4 - 0.8 * Math.abs(k - label) + (k === neighbour ? 1.4 : 0));
    },
    wrong: ({ classes, label }) => {
      const far = label <= (classes - 1) / 2 ? classes - 1 : 0;
      return each(classes, k => 4.5 - 9 * Math.abs(k - far) / (classes - 1));
    },
    peaks: ({ classes, label }) => {
      const far = label <= (classes - 1) / 2 ? classes - 1 : 0;
      if (Math.abs(far - label) < 2) return each(classes, k => (k === label ? -0.5 : 1 - 0.3 * Math.abs(k - far)));
      return each(classes, k => 1.2 - Math.min(0.9 * Math.abs(k - label), 2.2) + (k === far ? 1.7 : 0));
    },
    uniform: ({ classes }) => each(classes, () => 0),
    anchor: settings => fromGaps(orcuModel.equilibrium({ ...settings, regularizer: "none" }).gaps, settings.label),
    equilibrium: settings => fromGaps(orcuModel.equilibrium(settings).gaps, settings.label),
  };

  function initialState() {
    const initial = {
      label: START.true_class, scale: START.scale, distance: START.distance, regularizer: START.regularizer,
      rate: 0.3, preset: START.logits ? null : "violated", gap: 0,
      logits: START.logits ? START.logits.slice() : new Array(START.num_classes).fill(0),
    };
    if (initial.preset) initial.logits = presets[initial.preset](settingsOf(initial));
    initial.gap = worstGap(initial);
    return initial;
  }

  /* The gap that is furthest from being ordered. */
  function worstGap({ logits, label }) {
    const gaps = orcuModel.directedGaps(logits, label);
    return gaps.indexOf(Math.max(...gaps));
  }

  /* ---- state in the address ---- */

  function toHash({ logits, label, scale, distance, regularizer, gap, rate }) {
    const z = logits.map(value => Number(value.toPrecision(10))).join(",");
    return `#y=${label}&s=${scale}&d=${distance}&g=${regularizer}&k=${gap}&e=${rate}&z=${z}`;
  }

  /* The state in an address, or null; all values are checked. Without logits those of the page are used. */
  function fromHash(hash) {
    const params = new URLSearchParams(hash.replace(/^#/, ""));
    if (!["y", "s", "d", "g", "k", "e", "z"].some(key => params.has(key))) return null;
    const logits = !params.has("z") ? initialState().logits : (params.get("z") ?? "").split(",").map(part => (part.trim() === "" ? NaN : Number(part)));
    const valid = logits.length >= 2 && logits.length <= MAX_CLASSES && logits.every(z => Math.abs(z) <= MAX_LOGIT);
    if (!valid) return null;
    const number = (key, low, high, fallback) => {
      const value = params.has(key) && params.get(key).trim() !== "" ? Number(params.get(key)) : NaN;
      return value >= low && value <= high ? value : fallback;
    };
    const integer = (key, high, fallback) => Math.trunc(number(key, 0, high, fallback));
    const name = (key, choices, fallback) => (choices.includes(params.get(key)) ? params.get(key) : fallback);
    const label = integer("y", logits.length - 1, params.has("z") ? 0 : START.true_class);
    return {
      logits, label, preset: null,
      scale: number("s", SCALES[0], SCALES.at(-1), START.scale),
      distance: name("d", orcuModel.distances, START.distance),
      regularizer: name("g", orcuModel.regularizers, START.regularizer),
      rate: number("e", RATES[0], RATES.at(-1), 0.3),
      gap: integer("k", logits.length - 2, worstGap({ logits, label })),
    };
  }

  function writeHash() {
    clearTimeout(hashTimer);
    hashTimer = 0;
    if (orcuTabs.open() !== "loss") return; // the other tab sets the address
    try { history.replaceState(null, "", toHash(state)); } catch { location.hash = toHash(state); }
  }

  /* ---- changes ---- */

  function change(part, { keepAxis = false } = {}) {
    const previous = state;
    state = { ...state, ...part };
    const settingsChanged = ["label", "scale", "distance", "regularizer"].some(key => state[key] !== previous?.[key])
      || state.logits.length !== previous?.logits.length;
    if (settingsChanged) {
      solution = orcuModel.equilibrium(settingsOf(state));
      if (state.preset && !("logits" in part)) state.logits = presets[state.preset](settingsOf(state));
    }
    state.gap = clamp(state.gap, 0, state.logits.length - 2);
    if (!keepAxis) {
      const largest = Math.max(...state.logits.map(Math.abs));
      limit = LIMITS.find(size => size >= largest) ?? MAX_LOGIT;
    }
    // browsers slow down pages that change their address too often
    if (!hashTimer) hashTimer = setTimeout(writeHash, 300);
    render();
  }

  function setLogit(k, value, options) {
    const logits = state.logits.slice();
    logits[k] = clamp(value, -MAX_LOGIT, MAX_LOGIT);
    change({ logits, preset: null }, options);
  }

  function setNumClasses(classes) {
    const label = Math.min(state.label, classes - 1);
    const logits = state.logits.slice(0, classes);
    while (logits.length < classes) logits.push(logits.at(-1));
    const part = { label, gap: Math.min(state.gap, classes - 2) };
    part.logits = state.preset ? presets[state.preset]({ ...settingsOf(state), classes, label }) : logits;
    change(part);
    if (state.preset) change({ gap: worstGap(state) });
  }

  function applyPreset(name) {
    stop();
    const logits = presets[name](settingsOf(state));
    change({ logits, preset: name });
    change({ gap: worstGap(state) });
    const clipped = { anchor: solution.anchorGaps, equilibrium: solution.gaps }[name]?.some(r => r < -MAX_PRESET_GAP);
    text("message", clipped ? `Gaps are limited to ${MAX_PRESET_GAP}; the table below has the exact values.` : "");
  }

  /* ---- gradient descent ---- */

  const largestGradient = () => Math.max(...orcuModel.evaluate(state).total.gradient.map(Math.abs));

  function descendBy(steps) {
    let logits = state.logits;
    for (let i = 0; i < steps; i++) {
      logits = orcuModel.step({ ...state, logits }, state.rate).map(z => clamp(z, -MAX_LOGIT, MAX_LOGIT));
    }
    change({ logits, preset: null });
  }

  function stop(message = "") {
    if (!descent) return;
    cancelAnimationFrame(descent.frame);
    descent = null;
    text("descend", "Descend");
    $("headline").setAttribute("aria-live", "polite");
    if (message) text("message", message);
  }

  function advance() {
    // slow at first, so that it can be watched, then faster: wide gaps take thousands of steps
    const steps = descent.steps < 90 ? 1 : descent.steps < 400 ? 4 : 30;
    descendBy(steps);
    descent.steps += steps;
    const gradient = largestGradient();
    text("message", `${descent.steps} steps, largest gradient ${shown(gradient)}`);
    if (gradient < TOLERANCE) stop(`Converged after ${descent.steps} steps: no gradient above ${TOLERANCE}.`);
    else if (descent.steps >= MAX_STEPS) stop(`Stopped after ${descent.steps} steps; the largest gradient is ${shown(gradient)}.`);
    else descent.frame = requestAnimationFrame(advance);
  }

  function descend() {
    if (descent) { stop(); return; }
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      descendBy(300);
      text("message", `300 steps; the largest gradient is ${shown(largestGradient())}.`);
      return;
    }
    text("descend", "Stop");
    $("headline").setAttribute("aria-live", "off"); // or a screen reader would read every step
    descent = { steps: 0, frame: requestAnimationFrame(advance) };
  }

  /* ---- rendering ---- */

  function renderHeadline(terms, margin) {
    const { label, scale, regularizer } = state;
    const pair = k => (k >= label ? { near: k, far: k + 1 } : { near: k + 1, far: k });
    const violated = terms.gaps.map((_, k) => k).filter(k => terms.gaps[k] > 0);
    const missed = terms.gaps.map((_, k) => k).filter(k => terms.gaps[k] > -margin);
    const range = list => {
      const [low, high] = [Math.min(...list), Math.max(...list)].map(value => shown(value));
      return low === high ? low : `${low} to ${high}`;
    };
    const s = plain(scale);
    if (violated.length > 0) {
      const worst = violated.reduce((a, b) => (terms.gaps[b] > terms.gaps[a] ? b : a));
      const { near, far } = pair(worst);
      const others = violated.length > 1 ? ` (${violated.length} violated gaps)` : "";
      text("headline", `Violated order: class ${far} has a larger logit than class ${near}, which is closer to the label${others}.`);
    } else if (missed.length > 0 && (regularizer === "lbe" || regularizer === "hinge")) {
      const k = missed.reduce((a, b) => (terms.gaps[b] > terms.gaps[a] ? b : a));
      const many = missed.length === 1 ? `gap ${k}|${k + 1} violates`
        : `${missed.length === terms.gaps.length ? `all ${missed.length}` : `${missed.length} of ${terms.gaps.length}`} gaps violate`;
      text("headline", `Ordered around class ${label}, but ${many} the margin 1/s² = ${plain(margin)}.`);
    } else {
      text("headline", `Ordered around class ${label}: logits decrease with the distance from the label.`);
    }
    const interior = terms.derivatives.filter((_, k) => terms.gaps[k] <= -margin);
    text("subline", {
      lbe: (missed.length > 0
        ? `LBE has its largest derivative s = ${s}${missed.length < terms.gaps.length ? ` there, and 1/(s|r|) of ${range(interior)} at the ordered gaps` : ""}.`
        : `LBE stays active in the feasible interior: its derivatives 1/(s|r|) are ${range(terms.derivatives)}.`),
      hinge: missed.length > 0
        ? "The hinge has derivative 1 where the margin is violated, and 0 elsewhere."
        : "The hinge is inactive: its gradient is zero because no gap violates the margin.",
      softplus: `SoftPlus has derivatives sigmoid(r) of ${range(terms.derivatives)}, which decrease exponentially in the interior.`,
      none: "SoftCE alone: the minimiser is the fixed soft target.",
    }[regularizer]);
    text("violated", `${violated.length} of ${terms.gaps.length}`);
  }

  function render() {
    const { logits, label, scale, distance, regularizer, gap, rate } = state;
    const classes = logits.length;
    const terms = orcuModel.evaluate(state);
    const margin = 1 / (scale * scale);
    const shownMargin = regularizer === "lbe" || regularizer === "hinge" ? margin : null;

    renderControls(classes, margin);
    renderHeadline(terms, margin);
    text("softce", shown(terms.softce.value));
    text("penalty", regularizer === "none" ? "–" : shown(terms.penalty.value));
    text("total", shown(terms.total.value));
    text("total-name", { lbe: "ORCU (sum)", none: "the sum" }[regularizer] ?? `SoftCE + ${NAMES[regularizer]}`);
    const top = terms.probs.indexOf(Math.max(...terms.probs));
    text("top", `${top} · ${(100 * terms.probs[top]).toPrecision(3)} %`);
    text("unimodal", !terms.unimodal ? "no" : top === label ? "yes" : `yes, around ${top}`);
    $("unimodal").classList.toggle("long", terms.unimodal && top !== label);
    document.querySelectorAll(".penalty-name").forEach(element => {
      element.textContent = regularizer === "none" ? "regularizer" : NAMES[regularizer];
    });

    const next = orcuModel.step(state, rate);
    const frame = orcuCharts.logits($("chart-logits"), { values: logits, next, label, limit });
    renderHandles(frame, terms);
    orcuCharts.probs($("chart-probs"), { probs: terms.probs, targets: terms.targets, label });
    orcuCharts.forces($("chart-forces"), {
      softce: terms.softce.gradient, penalty: terms.penalty.gradient, total: terms.total.gradient, label,
      penaltyName: NAMES[regularizer],
    });
    const marginInView = orcuCharts.gaps($("chart-gaps"), {
      gaps: terms.gaps, label, margin: shownMargin, chosen: gap, onChoose: k => change({ gap: k }),
    });
    text("margin-key", marginInView ? "margin −1/s²" : "margin below view");
    document.querySelectorAll(".key.margin").forEach(key => { key.parentElement.hidden = shownMargin === null; });
    orcuCharts.equilibrium($("chart-equilibrium"), {
      anchor: solution.anchor, equilibrium: solution.probs, now: terms.probs, label,
    });
    text("equilibrium-summary", `Probability of the label: ${shown(solution.anchor[label])} at the anchor, `
      + `${shown(solution.probs[label])} at the equilibrium, ${shown(terms.probs[label])} now. `
      + `Widest gap at the equilibrium: ${shown(Math.min(...solution.gaps), 2)}.`);
    renderLandscape(terms.gaps[gap], shownMargin);
    renderTable(terms);
  }

  function renderLandscape(now, margin) {
    const lowest = orcuModel.landscapeMinimum(state, state.gap, -15, 3);
    const inView = lowest > -15;
    const low = Math.min(-3, 1.25 * now, inView ? 1.3 * lowest : 0, margin !== null && margin <= 8 ? -1.3 * margin : 0);
    const high = Math.max(1.5, now + 1);
    const values = Array.from({ length: 241 }, (_, i) => low + (high - low) * i / 240);
    const curves = orcuModel.landscape(state, state.gap, values.concat([now, lowest]));
    const relative = list => list.map(value => value - list[241]);
    const [softce, penalty, total] = [curves.softce, curves.penalty, curves.total].map(relative);
    const cut = list => list.slice(0, 241);
    const name = `gap ${state.gap}|${state.gap + 1}`;
    text("gap-out", `${name}: r = ${shown(now, 2)}`);
    $("lowest-key").parentElement.hidden = !inView;
    orcuCharts.landscape($("chart-landscape"), {
      values, softce: cut(softce), penalty: cut(penalty), total: cut(total), now, margin,
      lowest: inView ? { r: lowest, value: total[242] } : null,
      name: `Landscape of ${name}, now at r = ${shown(now)}${inView ? `, lowest at r = ${shown(lowest)}` : ""}`,
    });
  }

  function renderControls(classes, margin) {
    const { label, scale, distance, regularizer, rate, gap, preset } = state;
    const setSlider = (id, value, description) => {
      $(id).value = value;
      $(id).setAttribute("aria-valuetext", description);
      const out = $(`${id}-out`);
      if (id !== "gap" && out) out.textContent = description;
    };
    $("true-class").max = classes - 1;
    $("gap").max = classes - 2;
    $("gap").disabled = classes < 3;
    setSlider("num-classes", classes, String(classes));
    setSlider("true-class", label, String(label));
    setSlider("scale", nearest(SCALES, scale), plain(scale));
    setSlider("rate", nearest(RATES, rate), plain(rate));
    setSlider("gap", gap, `gap ${gap}|${gap + 1}`);
    text("margin", `margin 1/s² = ${plain(margin)}`);
    document.querySelectorAll("#distance input").forEach(input => { input.checked = input.value === distance; });
    document.querySelectorAll("#regularizer input").forEach(input => { input.checked = input.value === regularizer; });
    document.querySelectorAll("[data-preset]").forEach(button =>
      button.setAttribute("aria-pressed", String(button.dataset.preset === preset)));
  }

  /* ---- handles and table: created once per number of classes, so that changes keep the focus ---- */

  function renderHandles(frame, terms) {
    const svg = $("chart-logits");
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", "Logits, one slider per class");
    if (svg.querySelectorAll(".handle").length !== state.logits.length) {
      svg.querySelectorAll(".handle").forEach(handle => handle.remove());
      state.logits.forEach((_, k) => svg.append(makeHandle(svg, k)));
    }
    svg.querySelectorAll(".handle").forEach((handle, k) => {
      const z = state.logits[k];
      const half = Math.min(frame.column / 2, 24);
      handle.setAttribute("transform", `translate(${frame.middle(k)} ${frame.y(z)})`);
      const hit = handle.querySelector(".hit");
      hit.setAttribute("x", -half);
      hit.setAttribute("width", 2 * half);
      handle.setAttribute("aria-valuenow", rounded(z, 6));
      handle.setAttribute("aria-valuemin", -limit);
      handle.setAttribute("aria-valuemax", limit);
      handle.setAttribute("aria-valuetext", `${shown(z, 2)}, probability ${terms.probs[k].toFixed(3)}`);
      handle.querySelector("title").textContent = `class ${k}: z = ${shown(z)}, p = ${shown(terms.probs[k])}`;
    });
    logitFrame = frame;
  }
  let logitFrame = null;

  function makeHandle(svg, k) {
    const group = orcuCharts.add(svg, "g", { class: "handle", role: "slider", tabindex: 0, "aria-label": `logit of class ${k}`, "aria-orientation": "vertical" });
    orcuCharts.add(group, "title");
    orcuCharts.add(group, "rect", { class: "hit", y: -24, height: 48 });
    orcuCharts.add(group, "circle", { class: "halo", r: 13 });
    orcuCharts.add(group, "circle", { class: "knob", r: 9 });
    // the pointer position as a logit, from the position and scale of the chart on the screen
    const at = event => {
      const box = svg.getBoundingClientRect();
      const inside = (event.clientY - box.top) * logitFrame.height / box.height;
      return limit - (inside - logitFrame.top) * 2 * limit / (logitFrame.floor - logitFrame.top);
    };
    group.addEventListener("pointerdown", event => {
      if (event.button > 0) return;
      stop();
      drag = { k, offset: state.logits[k] - at(event) };
      try { group.setPointerCapture(event.pointerId); } catch { /* the pointer no longer exists */ }
      group.classList.add("dragged");
      group.focus({ preventScroll: true });
      event.preventDefault();
    });
    group.addEventListener("pointermove", event => {
      if (drag?.k !== k) return;
      const digits = limit > 50 ? 1 : 2;
      setLogit(k, rounded(clamp(at(event) + drag.offset, -limit, limit), digits), { keepAxis: true });
    });
    const release = () => {
      if (drag?.k !== k) return;
      drag = null;
      group.classList.remove("dragged");
      // extend the axis when a handle reaches its end
      if (Math.abs(state.logits[k]) >= limit && limit < MAX_LOGIT) {
        limit = LIMITS[LIMITS.indexOf(limit) + 1];
        render();
      } else change({});
    };
    group.addEventListener("pointerup", release);
    group.addEventListener("pointercancel", release);
    group.addEventListener("lostpointercapture", release);
    group.addEventListener("keydown", event => {
      const small = event.shiftKey ? 0.01 : 0.1;
      const moves = {
        ArrowUp: z => z + small, ArrowRight: z => z + small, ArrowDown: z => z - small, ArrowLeft: z => z - small,
        PageUp: z => z + 1, PageDown: z => z - 1, Home: () => -limit, End: () => limit,
      };
      if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      stop();
      setLogit(k, rounded(moves[event.key](state.logits[k]), 6));
    });
    return group;
  }

  function renderTable(terms) {
    const body = $("rows");
    const { logits, label } = state;
    if (body.children.length !== logits.length) {
      body.replaceChildren(...logits.map((_, k) => {
        const row = document.createElement("tr");
        for (let i = 0; i < 10; i++) row.append(document.createElement("td"));
        const input = document.createElement("input");
        Object.assign(input, { type: "number", step: "0.1", min: -MAX_LOGIT, max: MAX_LOGIT });
        input.setAttribute("aria-label", `logit of class ${k}`);
        input.addEventListener("change", () => {
          stop();
          if (Number.isFinite(input.valueAsNumber)) setLogit(k, input.valueAsNumber);
          input.value = rounded(state.logits[k], 4);
        });
        row.children[1].append(input);
        return row;
      }));
    }
    const gradient = value => shown(Math.abs(value) < 1e-12 ? 0 : value, 4); // hide rounding errors
    logits.forEach((z, k) => {
      const row = body.children[k];
      row.classList.toggle("label", k === label);
      const input = row.querySelector("input");
      if (document.activeElement !== input) input.value = rounded(z, 4);
      const cells = [
        k === label ? `${k} label` : String(k), null, shown(terms.probs[k], 4), shown(terms.targets[k], 4),
        shown(solution.probs[k], 4), gradient(terms.softce.gradient[k]), gradient(terms.penalty.gradient[k]),
        gradient(terms.total.gradient[k]),
        k < logits.length - 1 ? shown(terms.gaps[k]) : "", k < logits.length - 1 ? shown(solution.gaps[k]) : "",
      ];
      cells.forEach((value, i) => { if (value !== null) row.children[i].textContent = value; });
    });
  }

  /* ---- event handlers ---- */

  $("scale").max = SCALES.length - 1;
  $("rate").max = RATES.length - 1;
  const onSlide = (id, action) => $(id).addEventListener("input", () => { stop(); action(Number($(id).value)); });
  onSlide("num-classes", setNumClasses);
  onSlide("true-class", label => { change({ label }); if (state.preset) change({ gap: worstGap(state) }); });
  onSlide("scale", i => change({ scale: SCALES[i] }));
  onSlide("gap", gap => change({ gap }));
  $("rate").addEventListener("input", () => change({ rate: RATES[Number($("rate").value)] }));
  $("distance").addEventListener("change", event => { stop(); change({ distance: event.target.value }); });
  $("regularizer").addEventListener("change", event => { stop(); change({ regularizer: event.target.value }); });
  $("presets").addEventListener("click", event => {
    const name = event.target.dataset?.preset;
    if (name) applyPreset(name);
  });
  $("step").addEventListener("click", () => { stop(); descendBy(1); text("message", `One step: the largest gradient is now ${shown(largestGradient())}.`); });
  $("descend").addEventListener("click", descend);
  $("reset").addEventListener("click", () => { stop(); text("message", ""); change(initialState()); });
  $("controls").addEventListener("submit", event => event.preventDefault());
  $("share").addEventListener("click", async () => {
    writeHash();
    try {
      await navigator.clipboard.writeText(location.href);
      text("message", "The link to this view was copied.");
    } catch {
      text("message", "The address bar has the link to this view.");
    }
  });
  addEventListener("hashchange", event => {
    // not location.hash, which a delayed write may have changed
    const newState = fromHash(event.newURL.split("#")[1] ?? "");
    if (newState) { stop(); change(newState); }
  });
  addEventListener("resize", () => render());
  addEventListener("tab", event => {
    stop();
    if (event.detail === "loss") change({});
  });

  change(fromHash(location.hash) ?? initialState());
  window.orcuPage = Object.freeze({ state: () => state, solution: () => solution, toHash, fromHash });
})();
