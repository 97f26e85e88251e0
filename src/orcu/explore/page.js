"use strict";
/* The tab of the loss: one state, what changes it, and what is shown of it. */
(() => {
  const { shown, plain } = orcuCharts;
  const $ = id => document.getElementById(id);
  const START = JSON.parse($("start").textContent);
  const NAMES = { lbe: "LBE", hinge: "Hinge", softplus: "SoftPlus", none: "None" };
  const SCALES = [0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50];
  const RATES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5];
  const LIMITS = [3, 5, 10, 20, 50, 100, 200, 500, 1000]; // of the logit axis
  const MOST_CLASSES = Number($("classes").max);
  const LARGEST = LIMITS.at(-1);
  const CUT = 40; // widest gap of a preset: beyond it a probability is below 1e-17 of its neighbour
  const CALM = 1e-3; // a descent ends when no force is larger
  const PATIENCE = 8000; // or after so many steps

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const rounded = (value, digits) => Number(value.toFixed(digits));
  const nearest = (list, value) => list.reduce((best, one, i) =>
    (Math.abs(Math.log(one / value)) < Math.abs(Math.log(list[best] / value)) ? i : best), 0);
  const text = (id, value) => { $(id).textContent = value; };

  let state = null;
  let solution = null; // of the equilibrium, until the setting changes
  let limit = LIMITS[0];
  let drag = null; // { k, offset } while a handle is held
  let descent = null; // { steps, frame } while it runs
  let hashTimer = 0;

  /* ---- where a view starts ---- */

  const centred = z => {
    const middle = (Math.max(...z) + Math.min(...z)) / 2;
    return z.map(value => value - middle);
  };
  const fromGaps = (gaps, label) => centred(orcuModel.logitsOf(gaps.map(r => Math.min(-r, CUT)), label));
  const setting = s => ({
    classes: s.logits.length, label: s.label, scale: s.scale, distance: s.distance, regularizer: s.regularizer,
  });
  const each = (classes, value) => Array.from({ length: classes }, (_, k) => rounded(value(k), 4));
  const presets = {
    violated: ({ classes, label }) => {
      const rival = label + 1 < classes ? label + 1 : label - 1;
      return each(classes, k => 0.4 - 0.8 * Math.abs(k - label) + (k === rival ? 1.4 : 0));
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
    anchor: one => fromGaps(orcuModel.equilibrium({ ...one, regularizer: "none" }).gaps, one.label),
    equilibrium: one => fromGaps(orcuModel.equilibrium(one).gaps, one.label),
  };

  function fresh() {
    const first = {
      label: START.label, scale: START.scale, distance: START.distance, regularizer: START.regularizer,
      rate: 0.3, preset: START.logits ? null : "violated", gap: 0,
      logits: START.logits ? START.logits.slice() : new Array(START.classes).fill(0),
    };
    if (first.preset) first.logits = presets[first.preset](setting(first));
    first.gap = widest(first);
    return first;
  }

  /* The gap worth looking at first: the one furthest from being ordered. */
  function widest({ logits, label }) {
    const gaps = orcuModel.directedGaps(logits, label);
    return gaps.indexOf(Math.max(...gaps));
  }

  /* ---- the state in the address ---- */

  function toHash({ logits, label, scale, distance, regularizer, gap, rate }) {
    const z = logits.map(value => Number(value.toPrecision(10))).join(",");
    return `#y=${label}&s=${scale}&d=${distance}&g=${regularizer}&k=${gap}&e=${rate}&z=${z}`;
  }

  /* The state an address asks for, or null; nothing in it is trusted. Without logits it starts from the page's own. */
  function fromHash(hash) {
    const asked = new URLSearchParams(hash.replace(/^#/, ""));
    if (!["y", "s", "d", "g", "k", "e", "z"].some(key => asked.has(key))) return null;
    const logits = !asked.has("z") ? fresh().logits : (asked.get("z") ?? "").split(",").map(part => (part.trim() === "" ? NaN : Number(part)));
    const good = logits.length >= 2 && logits.length <= MOST_CLASSES && logits.every(z => Math.abs(z) <= LARGEST);
    if (!good) return null;
    const number = (key, low, high, otherwise) => {
      const value = asked.has(key) && asked.get(key).trim() !== "" ? Number(asked.get(key)) : NaN;
      return value >= low && value <= high ? value : otherwise;
    };
    const whole = (key, high, otherwise) => Math.trunc(number(key, 0, high, otherwise));
    const name = (key, known, otherwise) => (known.includes(asked.get(key)) ? asked.get(key) : otherwise);
    const label = whole("y", logits.length - 1, asked.has("z") ? 0 : START.label);
    return {
      logits, label, preset: null,
      scale: number("s", SCALES[0], SCALES.at(-1), START.scale),
      distance: name("d", orcuModel.distances, START.distance),
      regularizer: name("g", orcuModel.regularizers, START.regularizer),
      rate: number("e", RATES[0], RATES.at(-1), 0.3),
      gap: whole("k", logits.length - 2, widest({ logits, label })),
    };
  }

  function writeHash() {
    clearTimeout(hashTimer);
    hashTimer = 0;
    if (orcuTabs.open() !== "loss") return; // the address belongs to the other tab
    try { history.replaceState(null, "", toHash(state)); } catch { location.hash = toHash(state); }
  }

  /* ---- changes ---- */

  function change(part, { keepAxis = false } = {}) {
    const before = state;
    state = { ...state, ...part };
    const settingChanged = ["label", "scale", "distance", "regularizer"].some(key => state[key] !== before?.[key])
      || state.logits.length !== before?.logits.length;
    if (settingChanged) {
      solution = orcuModel.equilibrium(setting(state));
      if (state.preset && !("logits" in part)) state.logits = presets[state.preset](setting(state));
    }
    state.gap = clamp(state.gap, 0, state.logits.length - 2);
    if (!keepAxis) {
      const largest = Math.max(...state.logits.map(Math.abs));
      limit = LIMITS.find(one => one >= largest) ?? LARGEST;
    }
    // browsers slow a page down that writes its address too often
    if (!hashTimer) hashTimer = setTimeout(writeHash, 300);
    render();
  }

  function setLogit(k, value, options) {
    const logits = state.logits.slice();
    logits[k] = clamp(value, -LARGEST, LARGEST);
    change({ logits, preset: null }, options);
  }

  function setClasses(classes) {
    const label = Math.min(state.label, classes - 1);
    const logits = state.logits.slice(0, classes);
    while (logits.length < classes) logits.push(logits.at(-1));
    const part = { label, gap: Math.min(state.gap, classes - 2) };
    part.logits = state.preset ? presets[state.preset]({ ...setting(state), classes, label }) : logits;
    change(part);
    if (state.preset) change({ gap: widest(state) });
  }

  function applyPreset(name) {
    stop();
    const logits = presets[name](setting(state));
    change({ logits, preset: name });
    change({ gap: widest(state) });
    const cut = { anchor: solution.anchorGaps, equilibrium: solution.gaps }[name]?.some(r => r < -CUT);
    text("told", cut ? `Gaps wider than ${CUT} are cut to ${CUT}; the table below has the true ones.` : "");
  }

  /* ---- descent ---- */

  const force = () => Math.max(...orcuModel.evaluate(state).total.gradient.map(Math.abs));

  function descendBy(steps) {
    let logits = state.logits;
    for (let i = 0; i < steps; i++) {
      logits = orcuModel.step({ ...state, logits }, state.rate).map(z => clamp(z, -LARGEST, LARGEST));
    }
    change({ logits, preset: null });
  }

  function stop(why = "") {
    if (!descent) return;
    cancelAnimationFrame(descent.frame);
    descent = null;
    text("descend", "Descend");
    $("headline").setAttribute("aria-live", "polite");
    if (why) text("told", why);
  }

  function advance() {
    // slow enough to watch at first, then quicker: remote gaps take thousands of steps
    const steps = descent.steps < 90 ? 1 : descent.steps < 400 ? 4 : 30;
    descendBy(steps);
    descent.steps += steps;
    const left = force();
    text("told", `${descent.steps} steps, largest force ${shown(left)}`);
    if (left < CALM) stop(`Settled after ${descent.steps} steps: no force above ${CALM}.`);
    else if (descent.steps >= PATIENCE) stop(`Stopped after ${descent.steps} steps; the largest force is ${shown(left)}.`);
    else descent.frame = requestAnimationFrame(advance);
  }

  function descend() {
    if (descent) { stop(); return; }
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      descendBy(300);
      text("told", `300 steps taken at once; the largest force is ${shown(force())}.`);
      return;
    }
    text("descend", "Stop");
    $("headline").setAttribute("aria-live", "off"); // it would speak at every step
    descent = { steps: 0, frame: requestAnimationFrame(advance) };
  }

  /* ---- what is said ---- */

  function headline(found, margin) {
    const { label, scale, regularizer } = state;
    const pair = k => (k >= label ? { near: k, far: k + 1 } : { near: k + 1, far: k });
    const violated = found.gaps.map((_, k) => k).filter(k => found.gaps[k] > 0);
    const missed = found.gaps.map((_, k) => k).filter(k => found.gaps[k] > -margin);
    const range = list => {
      const [low, high] = [Math.min(...list), Math.max(...list)].map(value => shown(value));
      return low === high ? low : `${low} to ${high}`;
    };
    const s = plain(scale);
    if (violated.length > 0) {
      const worst = violated.reduce((a, b) => (found.gaps[b] > found.gaps[a] ? b : a));
      const { near, far } = pair(worst);
      const others = violated.length > 1 ? ` (${violated.length} gaps in all)` : "";
      text("headline", `Violated: class ${far} outranks class ${near}, which is nearer to the label${others}.`);
    } else if (missed.length > 0 && (regularizer === "lbe" || regularizer === "hinge")) {
      const k = missed.reduce((a, b) => (found.gaps[b] > found.gaps[a] ? b : a));
      const many = missed.length === 1 ? `gap ${k}|${k + 1} misses`
        : `${missed.length === found.gaps.length ? `all ${missed.length}` : `${missed.length} of ${found.gaps.length}`} gaps miss`;
      text("headline", `Ordered around class ${label}, but ${many} the margin 1/s² = ${plain(margin)}.`);
    } else {
      text("headline", `Ordered around class ${label}: no farther class outranks a nearer one.`);
    }
    const inside = found.slopes.filter((_, k) => found.gaps[k] <= -margin);
    text("subline", {
      lbe: (missed.length > 0
        ? `LBE pushes back with its full slope s = ${s}${missed.length < found.gaps.length ? ` there, and keeps refining the ordered gaps with slopes 1/(s|r|) of ${range(inside)}` : ""}.`
        : `LBE stays active in the feasible interior: it refines the confidence with slopes 1/(s|r|) of ${range(found.slopes)}.`),
      hinge: missed.length > 0
        ? "The hinge pushes with slope 1 where the margin is missed, and not at all elsewhere."
        : "The hinge is silent: once the margin is kept it has no gradient, so nothing refines the confidence.",
      softplus: `SoftPlus pushes with sigmoid(r), which dies exponentially inside: slopes of ${range(found.slopes)}.`,
      none: "SoftCE alone: the prediction is tied to the fixed soft target.",
    }[regularizer]);
    text("violated", `${violated.length} of ${found.gaps.length}`);
  }

  function render() {
    const { logits, label, scale, distance, regularizer, gap, rate } = state;
    const classes = logits.length;
    const found = orcuModel.evaluate(state);
    const margin = 1 / (scale * scale);
    const shownMargin = regularizer === "lbe" || regularizer === "hinge" ? margin : null;

    renderControls(classes, margin);
    headline(found, margin);
    text("softce", shown(found.softce.value));
    text("penalty", regularizer === "none" ? "–" : shown(found.penalty.value));
    text("total", shown(found.total.value));
    text("total-name", { lbe: "ORCU (sum)", none: "the sum" }[regularizer] ?? `SoftCE + ${NAMES[regularizer]}`);
    const top = found.probs.indexOf(Math.max(...found.probs));
    text("top", `${top} · ${(100 * found.probs[top]).toPrecision(3)} %`);
    text("unimodal", !found.unimodal ? "no" : top === label ? "yes" : `yes, around ${top}`);
    $("unimodal").classList.toggle("long", found.unimodal && top !== label);
    document.querySelectorAll(".penalty-name").forEach(one => {
      one.textContent = regularizer === "none" ? "regularizer" : NAMES[regularizer];
    });

    const next = orcuModel.step(state, rate);
    const frame = orcuCharts.logits($("chart-logits"), { values: logits, next, label, limit });
    renderHandles(frame, found);
    orcuCharts.probs($("chart-probs"), { probs: found.probs, targets: found.targets, label });
    orcuCharts.forces($("chart-forces"), {
      softce: found.softce.gradient, penalty: found.penalty.gradient, total: found.total.gradient, label,
      penaltyName: NAMES[regularizer],
    });
    const marginInView = orcuCharts.gaps($("chart-gaps"), {
      gaps: found.gaps, label, margin: shownMargin, chosen: gap, onChoose: k => change({ gap: k }),
    });
    text("margin-key", marginInView ? "margin −1/s²" : "margin below view");
    document.querySelectorAll(".key.margin").forEach(key => { key.parentElement.hidden = shownMargin === null; });
    orcuCharts.equilibrium($("chart-equilibrium"), {
      anchor: solution.anchor, settled: solution.probs, now: found.probs, label,
    });
    text("settled", `Mass on the label: ${shown(solution.anchor[label])} at the anchor, `
      + `${shown(solution.probs[label])} at equilibrium, ${shown(found.probs[label])} now. `
      + `Widest gap at equilibrium: ${shown(Math.min(...solution.gaps), 2)}.`);
    renderLandscape(found.gaps[gap], shownMargin);
    renderTable(found);
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
    const slide = (id, value, said) => {
      $(id).value = value;
      $(id).setAttribute("aria-valuetext", said);
      const out = $(`${id}-out`);
      if (id !== "gap" && out) out.textContent = said;
    };
    $("label").max = classes - 1;
    $("gap").max = classes - 2;
    $("gap").disabled = classes < 3;
    slide("classes", classes, String(classes));
    slide("label", label, String(label));
    slide("scale", nearest(SCALES, scale), plain(scale));
    slide("rate", nearest(RATES, rate), plain(rate));
    slide("gap", gap, `gap ${gap}|${gap + 1}`);
    text("margin", `margin 1/s² = ${plain(margin)}`);
    document.querySelectorAll("#distance input").forEach(one => { one.checked = one.value === distance; });
    document.querySelectorAll("#regularizer input").forEach(one => { one.checked = one.value === regularizer; });
    document.querySelectorAll("[data-preset]").forEach(one =>
      one.setAttribute("aria-pressed", String(one.dataset.preset === preset)));
  }

  /* ---- handles and table: made once per number of classes, so that focus survives a change ---- */

  function renderHandles(frame, found) {
    const svg = $("chart-logits");
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", "Logits, one slider per class");
    if (svg.querySelectorAll(".handle").length !== state.logits.length) {
      svg.querySelectorAll(".handle").forEach(one => one.remove());
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
      handle.setAttribute("aria-valuetext", `${shown(z, 2)}, probability ${found.probs[k].toFixed(3)}`);
      handle.querySelector("title").textContent = `class ${k}: z = ${shown(z)}, p = ${shown(found.probs[k])}`;
    });
    orcuFrame = frame;
  }
  let orcuFrame = null;

  function makeHandle(svg, k) {
    const group = orcuCharts.add(svg, "g", { class: "handle", role: "slider", tabindex: 0, "aria-label": `logit of class ${k}`, "aria-orientation": "vertical" });
    orcuCharts.add(group, "title");
    orcuCharts.add(group, "rect", { class: "hit", y: -24, height: 48 });
    orcuCharts.add(group, "circle", { class: "halo", r: 13 });
    orcuCharts.add(group, "circle", { class: "knob", r: 9 });
    // the pointer in units of the logit, from the place and scale the chart has on the screen
    const at = event => {
      const box = svg.getBoundingClientRect();
      const inside = (event.clientY - box.top) * orcuFrame.height / box.height;
      return limit - (inside - orcuFrame.top) * 2 * limit / (orcuFrame.floor - orcuFrame.top);
    };
    group.addEventListener("pointerdown", event => {
      if (event.button > 0) return;
      stop();
      drag = { k, offset: state.logits[k] - at(event) };
      try { group.setPointerCapture(event.pointerId); } catch { /* the pointer is already gone */ }
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
      // at the end of the axis there must be more of it, to drag on
      if (Math.abs(state.logits[k]) >= limit && limit < LARGEST) {
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

  function renderTable(found) {
    const body = $("rows");
    const { logits, label } = state;
    if (body.children.length !== logits.length) {
      body.replaceChildren(...logits.map((_, k) => {
        const row = document.createElement("tr");
        for (let i = 0; i < 10; i++) row.append(document.createElement("td"));
        const input = document.createElement("input");
        Object.assign(input, { type: "number", step: "0.1", min: -LARGEST, max: LARGEST });
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
    const slope = value => shown(Math.abs(value) < 1e-12 ? 0 : value, 4); // rounding is no force
    logits.forEach((z, k) => {
      const row = body.children[k];
      row.classList.toggle("label", k === label);
      const input = row.querySelector("input");
      if (document.activeElement !== input) input.value = rounded(z, 4);
      const cells = [
        k === label ? `${k} label` : String(k), null, shown(found.probs[k], 4), shown(found.targets[k], 4),
        shown(solution.probs[k], 4), slope(found.softce.gradient[k]), slope(found.penalty.gradient[k]),
        slope(found.total.gradient[k]),
        k < logits.length - 1 ? shown(found.gaps[k]) : "", k < logits.length - 1 ? shown(solution.gaps[k]) : "",
      ];
      cells.forEach((value, i) => { if (value !== null) row.children[i].textContent = value; });
    });
  }

  /* ---- wiring ---- */

  $("scale").max = SCALES.length - 1;
  $("rate").max = RATES.length - 1;
  const onSlide = (id, act) => $(id).addEventListener("input", () => { stop(); act(Number($(id).value)); });
  onSlide("classes", setClasses);
  onSlide("label", label => { change({ label }); if (state.preset) change({ gap: widest(state) }); });
  onSlide("scale", i => change({ scale: SCALES[i] }));
  onSlide("gap", gap => change({ gap }));
  $("rate").addEventListener("input", () => change({ rate: RATES[Number($("rate").value)] }));
  $("distance").addEventListener("change", event => { stop(); change({ distance: event.target.value }); });
  $("regularizer").addEventListener("change", event => { stop(); change({ regularizer: event.target.value }); });
  $("presets").addEventListener("click", event => {
    const name = event.target.dataset?.preset;
    if (name) applyPreset(name);
  });
  $("step").addEventListener("click", () => { stop(); descendBy(1); text("told", `One step: the largest force is now ${shown(force())}.`); });
  $("descend").addEventListener("click", descend);
  $("reset").addEventListener("click", () => { stop(); text("told", ""); change(fresh()); });
  $("controls").addEventListener("submit", event => event.preventDefault());
  $("share").addEventListener("click", async () => {
    writeHash();
    try {
      await navigator.clipboard.writeText(location.href);
      text("told", "The link to this view is copied.");
    } catch {
      text("told", "The address bar holds the link to this view.");
    }
  });
  addEventListener("hashchange", event => {
    // not location.hash: a write that was waiting may have come between
    const asked = fromHash(event.newURL.split("#")[1] ?? "");
    if (asked) { stop(); change(asked); }
  });
  addEventListener("resize", () => render());
  addEventListener("tab", event => {
    stop();
    if (event.detail === "loss") change({});
  });

  change(fromHash(location.hash) ?? fresh());
  window.orcuPage = Object.freeze({ state: () => state, solution: () => solution, toHash, fromHash });
})();
