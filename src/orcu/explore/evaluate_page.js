"use strict";
/* The tab that evaluates a table: its input, the choice of columns, and the results. */
(() => {
  const { formatCount, percent, shown } = orcuWords;
  const $ = id => document.getElementById(id);
  const MAX_DIAGRAMS = 24; // of classes, and of thresholds
  const WORST_DIAGRAMS = 3; // with more classes: those with the largest errors
  const TILES = [
    ["accuracy", "accuracy", { share: true }],
    ["off_by_one_accuracy", "off by at most one class", { share: true }],
    ["mae", "mean absolute error"],
    ["qwk", "quadratic kappa"],
    ["overconfidence", "confidence minus accuracy", { share: true, signed: true }],
    ["ece", "calibration error (ECE)", { share: true }],
    ["sce", "class-wise error (SCE)", { share: true }],
    ["threshold_ce", "threshold-wise error", { share: true }],
    ["unimodality", "unimodal", { share: true }],
    ["rps", "ranked probability score"],
    ["nll", "negative log-likelihood"],
    ["brier", "Brier score"],
  ];

  let table = null;
  let choice = null;
  let draw = null; // draws all charts; called again when the width changes
  let inputNumber = 0; // of the latest table; earlier tables that are still being read are discarded

  const element = (name, attributes = {}, text = null) => orcuCharts.add(document.createElement("div"), name, attributes, text);

  /* ---- input ---- */

  function showStatus({ progress = "", error = "" }) {
    $("progress").textContent = progress;
    $("error").textContent = error;
    $("error").hidden = !error;
  }

  /* Run an action and show its input error together with the controls; other errors are bugs and are raised. */
  function runSafely(action) {
    try {
      action();
    } catch (error) {
      $("result").hidden = true;
      draw = null;
      if (!(error instanceof InputError)) {
        showStatus({ error: `Internal error of the page: ${error.message}` });
        throw error;
      }
      showStatus({ error: error.message });
      $("choose").open = true;
    }
  }

  function clear(progress) {
    inputNumber += 1;
    table = null;
    draw = null;
    $("result").hidden = true;
    $("choose").hidden = true;
    $("choose").open = false;
    showStatus({ progress });
    return inputNumber;
  }

  /* Read a dropped or selected file and evaluate it. */
  function openFile(file) {
    const current = clear(`Reading ${file.name} …`);
    runSafely(() => {
      orcuTable.checkSize(file.size, file.name);
      const reader = new FileReader();
      const then = action => () => { if (current === inputNumber) runSafely(action); };
      reader.addEventListener("load", then(() => openText(orcuTable.textOf(reader.result, file.name), file.name)));
      reader.addEventListener("error", then(() => {
        throw new InputError(`${file.name}: cannot be read. Check that it is a file and still exists.`);
      }));
      reader.readAsArrayBuffer(file);
    });
  }

  function openText(text, name) {
    runSafely(() => {
      table = orcuTable.read(text, name);
      const proposal = orcuPredictions.propose(table);
      choice = proposal.choice;
      renderChoice();
      $("choose").hidden = false;
      if (proposal.question) throw new InputError(proposal.question);
      evaluate();
    });
  }

  function openFiles(files) {
    if (files.length === 1) return openFile(files[0]);
    clear("");
    return runSafely(() => {
      throw new InputError(files.length ? `${files.length} files: drop one file at a time.` : "The dropped item is not a file.");
    });
  }

  /* ---- choice of columns ---- */

  function setOptions(select, names, chosen) {
    select.replaceChildren(...names.map(name => element("option", { value: name }, name)));
    select.value = chosen;
  }

  function renderChoice() {
    setOptions($("label-column"), table.names, choice.label);
    $("label-coding").value = choice.labels;
    $("kind").value = choice.kind;
    $("class-columns").querySelectorAll("label").forEach(label => label.remove());
    for (const name of table.names) {
      const label = element("label");
      const box = orcuCharts.add(label, "input", { type: "checkbox", value: name });
      box.checked = choice.columns.includes(name);
      orcuCharts.add(label, "span", {}, name);
      $("class-columns").append(label);
    }
    renderOrder();
  }

  function renderOrder() {
    $("class-order").querySelectorAll("label").forEach(label => label.remove());
    choice.order.forEach((column, k) => {
      const label = element("label");
      orcuCharts.add(label, "span", {}, k === 0 ? "lowest" : k === choice.order.length - 1 ? "highest" : String(k + 1));
      const select = orcuCharts.add(label, "select");
      setOptions(select, choice.columns, column);
      select.addEventListener("change", () => { // swap the two classes
        const order = choice.order.slice();
        order[order.indexOf(select.value)] = column;
        order[k] = select.value;
        choice = { ...choice, order };
        renderOrder();
        $("class-order").querySelectorAll("select")[k].focus();
      });
      $("class-order").append(label);
    });
  }

  /* Hide results of other columns than the selected ones. */
  function hideResults() {
    $("result").hidden = true;
    draw = null;
    showStatus({ progress: "Press Evaluate to see the results of these columns." });
  }

  /* ---- results ---- */

  function evaluate() {
    const predictions = orcuPredictions.read(table, choice);
    const result = orcuEvaluation.evaluate({ ...predictions, classes: predictions.classes.length });
    const { notes, classes } = predictions;
    const labelWarning = orcuWords.labelWarning(result);
    const warnings = [...notes.filter(note => note.startsWith("WARNING")), ...(labelWarning ? [labelWarning] : [])];
    const sce = `The class-wise error (SCE) is ${percent(result.metrics.sce)}; the full report has the value expected for a `
      + "perfectly calibrated model.";
    const [first, ...others] = orcuWords.headline(result);
    $("sentences").replaceChildren(
      ...warnings.map(note => element("p", { class: "lead alert" }, note)),
      element("p", { class: "lead first" }, first), ...[sce, ...others].map(text => element("p", { class: "lead" }, text)),
    );
    $("figures").replaceChildren(...TILES.map(([name, title, format]) => {
      const tile = element("div", { class: "tile" });
      orcuCharts.add(tile, "span", {}, title);
      orcuCharts.add(tile, "b", { id: `figure-${name}` }, shown(result.metrics[name], format));
      return tile;
    }));
    const details = notes.filter(note => !note.startsWith("WARNING"));
    if (result.impossible) details.push(`${formatCount(result.impossible)} rows have probability 0 for their label, so the log-likelihood is infinite`);
    details.unshift(`${table.name}: ${formatCount(result.rows)} rows`);
    details.push(`${orcuEvaluation.N_BINS} bins of equal width (a, b], 0 in the first; ties between classes go to the lowest class`);
    $("notes").replaceChildren(...details.map(note => element("li", {}, note)));
    renderCommand();
    $("result").hidden = false;
    draw = panels(result, classes);
    draw();
    showStatus({ progress: `Evaluated ${formatCount(result.rows)} rows of ${table.name}.` });
  }

  function renderCommand() {
    const saved = /\.(csv|tsv|txt)$/i.test(table.name);
    const line = orcuPredictions.command(table, choice, saved ? table.name : "predictions.csv");
    $("command-line").hidden = line === null;
    $("command").textContent = line ?? "";
    $("copied").textContent = line === null
      ? "The command cannot be shown: names of columns or classes contain a comma or an asterisk. Rename them first."
      : saved ? "" : "Save the table as predictions.csv first.";
  }

  /* A panel with an empty chart. */
  function panel(title, note = "", keys = []) {
    const figure = element("figure", { class: "panel" });
    orcuCharts.add(figure, "figcaption", { class: "name" }, title);
    if (note) orcuCharts.add(figure, "p", { class: "explain" }, note);
    if (keys.length) {
      const legend = orcuCharts.add(figure, "div", { class: "legend" });
      for (const [role, text] of keys) {
        const key = orcuCharts.add(legend, "span");
        orcuCharts.add(key, "i", { class: `key ${role}` });
        key.append(text);
      }
    }
    const chart = orcuCharts.add(figure, "div", { class: "chart" });
    const svg = document.createElementNS($("chart-logits").namespaceURI, "svg");
    chart.append(svg);
    return { figure, svg };
  }

  /* Classes or thresholds with a diagram: all, or with very many those with the largest errors. */
  function selectDiagrams(errors) {
    const all = errors.map((_, k) => k);
    if (all.length <= MAX_DIAGRAMS) return all;
    return all.sort((a, b) => errors[b] - errors[a]).slice(0, WORST_DIAGRAMS).sort((a, b) => a - b);
  }

  /* Create the panels of a result; returns a function that draws all of them. */
  function panels(result, classes) {
    const { metrics, tables } = result;
    const diagram = (container, title, note, data, xlabel) => {
      const { figure, svg } = panel(title, note);
      $(container).append(figure);
      const bins = orcuEvaluation.reliability(data);
      return () => orcuCharts.reliability(svg, { bins, count: orcuEvaluation.N_BINS, xlabel, name: `Reliability diagram: ${title}` });
    };
    for (const container of ["overall", "by-class", "by-threshold", "decisions"]) $(container).replaceChildren();
    const draws = [diagram("overall", "Predicted class", `calibration error ${percent(metrics.ece)}`, tables.top, "confidence")];
    const histogram = panel("Confidence", "", [
      ["correct bar", "correct"], ["wrong bar", "wrong"], ["confidence line", `mean confidence ${percent(result.confidence)}`],
      ["margin line", `accuracy ${percent(metrics.accuracy)}`],
    ]);
    $("overall").append(histogram.figure);
    draws.push(() => orcuCharts.confidences(histogram.svg, {
      table: tables.top, confidence: result.confidence, accuracy: metrics.accuracy, name: "Histogram of the confidence, correct and wrong predictions",
    }));
    const select = (container, errors) => {
      const selected = selectDiagrams(errors);
      if (selected.length < errors.length) {
        $(container).append(element("p", { class: "note" }, `The ${selected.length} of ${errors.length} with the largest errors.`));
      }
      return selected;
    };
    for (const k of select("by-class", result.classErrors)) {
      draws.push(diagram("by-class", classes[k], `error ${percent(result.classErrors[k])}`, tables.classes[k], "predicted probability"));
    }
    for (const k of select("by-threshold", result.thresholdErrors)) {
      const event = k + 2 < classes.length ? `${classes[k + 1]} or above` : classes[k + 1];
      draws.push(diagram("by-threshold", event, `error ${percent(result.thresholdErrors[k])}`, orcuEvaluation.complement(tables.thresholds[k]),
        "predicted probability"));
    }
    const matrix = panel("Confusion matrix");
    $("decisions").append(matrix.figure);
    draws.push(() => orcuCharts.confusion(matrix.svg, {
      counts: result.confusion, names: classes, name: `Confusion matrix of ${formatCount(result.rows)} rows`,
    }));
    return () => draws.forEach(drawPanel => drawPanel());
  }

  /* ---- event handlers ---- */

  $("file").addEventListener("change", () => { if ($("file").files.length) openFiles($("file").files); });
  $("file").addEventListener("click", () => { $("file").value = ""; }); // allow selecting the same file again
  const openPasted = () => { clear(""); openText($("pasted").value, "pasted table"); };
  $("evaluate-pasted").addEventListener("click", openPasted);
  $("example").addEventListener("click", () => { // in the text field, where it can be read, changed and copied
    $("pasted").value = orcuExample.csv();
    openPasted();
  });
  $("columns").addEventListener("input", event => {
    if (event.target.type === "checkbox") {
      const chosen = [...$("class-columns").querySelectorAll("input:checked")].map(box => box.value);
      choice = { ...choice, columns: chosen, order: chosen };
      renderOrder();
    }
    hideResults();
  });
  $("columns").addEventListener("submit", event => {
    event.preventDefault();
    choice = {
      ...choice, label: $("label-column").value, labels: $("label-coding").value, kind: $("kind").value, confirmed: true,
    };
    runSafely(evaluate);
  });
  $("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText($("command").textContent);
      $("copied").textContent = "The command was copied.";
    } catch {
      getSelection().selectAllChildren($("command"));
      $("copied").textContent = "The command is selected; copy it with the keyboard.";
    }
  });
  // a file dropped outside the field must not replace the page
  const hasFiles = event => event.dataTransfer?.types.includes("Files");
  const highlight = active => $("source").classList.toggle("over", active);
  addEventListener("dragover", event => { if (hasFiles(event)) { event.preventDefault(); highlight(true); } });
  addEventListener("dragleave", event => { if (!event.relatedTarget) highlight(false); });
  addEventListener("drop", event => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    highlight(false);
    orcuTabs.show("evaluate");
    openFiles(event.dataTransfer.files);
  });
  addEventListener("resize", () => draw?.());
  addEventListener("tab", () => draw?.());
  addEventListener("beforeprint", () => draw?.());
})();
