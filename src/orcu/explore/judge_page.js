"use strict";
/* The tab that judges a table: how it comes in, which of its columns are meant, and what is shown of it. */
(() => {
  const { counted, percent, shown } = orcuWords;
  const $ = id => document.getElementById(id);
  const MOST_DIAGRAMS = 24; // of classes, and of thresholds
  const FEW_DIAGRAMS = 3; // where they are more: those furthest off
  const TILES = [
    ["accuracy", "accuracy", { share: true }],
    ["within_one", "within one class", { share: true }],
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
  let draw = null; // what fills the charts, again where the width changes
  let turn = 0; // of the last table that came in; an earlier one that is still read is dropped

  const element = (name, attributes = {}, text = null) => orcuCharts.add(document.createElement("div"), name, attributes, text);

  /* ---- how a table comes in ---- */

  function say({ progress = "", refusal = "" }) {
    $("progress").textContent = progress;
    $("refusal").textContent = refusal;
    $("refusal").hidden = !refusal;
  }

  /* Show what is refused, with the controls by which to go on; an error of the page itself is not hidden. */
  function guarded(act) {
    try {
      act();
    } catch (error) {
      $("result").hidden = true;
      draw = null;
      if (!(error instanceof Refusal)) {
        say({ refusal: `The page itself has failed: ${error.message}` });
        throw error;
      }
      say({ refusal: error.message });
      $("choose").open = true;
    }
  }

  function clear(progress) {
    turn += 1;
    table = null;
    draw = null;
    $("result").hidden = true;
    $("choose").hidden = true;
    $("choose").open = false;
    say({ progress });
    return turn;
  }

  /* The text of a dropped or chosen file, then its figures. */
  function openFile(file) {
    const mine = clear(`Reading ${file.name} …`);
    guarded(() => {
      orcuTable.checkSize(file.size, file.name);
      const reader = new FileReader();
      const then = act => () => { if (mine === turn) guarded(act); };
      reader.addEventListener("load", then(() => openText(orcuTable.textOf(reader.result, file.name), file.name)));
      reader.addEventListener("error", then(() => {
        throw new Refusal(`${file.name}: cannot be read. Is it a folder, or was it moved?`);
      }));
      reader.readAsArrayBuffer(file);
    });
  }

  function openText(text, name) {
    guarded(() => {
      table = orcuTable.read(text, name);
      const proposal = orcuPredictions.propose(table);
      choice = proposal.choice;
      renderChoice();
      $("choose").hidden = false;
      if (proposal.doubt) throw new Refusal(proposal.doubt);
      judge();
    });
  }

  function openFiles(files) {
    if (files.length === 1) return openFile(files[0]);
    clear("");
    return guarded(() => {
      throw new Refusal(files.length ? `${files.length} files; the page judges one at a time.` : "What was dropped is no file.");
    });
  }

  /* ---- which columns are meant ---- */

  function options(select, names, chosen) {
    select.replaceChildren(...names.map(name => element("option", { value: name }, name)));
    select.value = chosen;
  }

  function renderChoice() {
    options($("label-column"), table.names, choice.label);
    $("labels-say").value = choice.labels;
    $("kind").value = choice.kind;
    $("class-columns").querySelectorAll("label").forEach(one => one.remove());
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
    $("class-order").querySelectorAll("label").forEach(one => one.remove());
    choice.order.forEach((column, k) => {
      const label = element("label");
      orcuCharts.add(label, "span", {}, k === 0 ? "lowest" : k === choice.order.length - 1 ? "highest" : String(k + 1));
      const select = orcuCharts.add(label, "select");
      options(select, choice.columns, column);
      select.addEventListener("change", () => { // the two change places
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

  /* Figures of other columns than those that are chosen must not stand on the page. */
  function outdated() {
    $("result").hidden = true;
    draw = null;
    say({ progress: "Press Judge to see the figures of these columns." });
  }

  /* ---- what is shown ---- */

  function judge() {
    const predictions = orcuPredictions.read(table, choice);
    const result = orcuJudge.judge({ ...predictions, classes: predictions.classes.length });
    const { notes, classes } = predictions;
    const doubt = orcuWords.labelDoubt(result);
    const warnings = [...notes.filter(note => note.startsWith("WARNING")), ...(doubt ? [doubt] : [])];
    const sce = `The class-wise calibration error (SCE) is ${percent(result.metrics.sce)}; what a calibrated model would show on as `
      + "many rows is in the full report.";
    const [first, ...others] = orcuWords.headline(result);
    $("sentences").replaceChildren(
      ...warnings.map(note => element("p", { class: "lead beyond" }, note)),
      element("p", { class: "lead first" }, first), ...[sce, ...others].map(text => element("p", { class: "lead" }, text)),
    );
    $("figures").replaceChildren(...TILES.map(([name, title, how]) => {
      const tile = element("div", { class: "tile" });
      orcuCharts.add(tile, "span", {}, title);
      orcuCharts.add(tile, "b", { id: `figure-${name}` }, shown(result.metrics[name], how));
      return tile;
    }));
    const left = notes.filter(note => !note.startsWith("WARNING"));
    if (result.impossible) left.push(`${counted(result.impossible)} rows give their label a probability of 0, so the log-likelihood is infinite`);
    left.unshift(`${table.name}: ${counted(result.rows)} rows`);
    left.push(`${orcuJudge.BINS} bins of equal width (a, b], 0 in the first; ties between classes go to the first`);
    $("notes").replaceChildren(...left.map(note => element("li", {}, note)));
    renderCommand();
    $("result").hidden = false;
    draw = panels(result, classes);
    draw();
    say({ progress: `Judged ${counted(result.rows)} rows of ${table.name}.` });
  }

  function renderCommand() {
    const saved = /\.(csv|tsv|txt)$/i.test(table.name);
    const line = orcuPredictions.command(table, choice, saved ? table.name : "predictions.csv");
    $("command-line").hidden = line === null;
    $("command").textContent = line ?? "";
    $("copied").textContent = line === null
      ? "Its command cannot be written here: names of columns or classes hold a comma or a star. Rename them first."
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

  /* Which classes or thresholds get a diagram: all, or of very many those that are furthest off. */
  function drawn(errors) {
    const all = errors.map((_, k) => k);
    if (all.length <= MOST_DIAGRAMS) return all;
    return all.sort((a, b) => errors[b] - errors[a]).slice(0, FEW_DIAGRAMS).sort((a, b) => a - b);
  }

  /* The panels of a result in their places, and what draws all of them. */
  function panels(result, classes) {
    const { metrics, tables } = result;
    const diagram = (place, title, note, data, said) => {
      const { figure, svg } = panel(title, note);
      $(place).append(figure);
      const bins = orcuJudge.reliability(data);
      return () => orcuCharts.reliability(svg, { bins, count: orcuJudge.BINS, said, name: `Reliability diagram: ${title}` });
    };
    for (const place of ["overall", "by-class", "by-threshold", "decisions"]) $(place).replaceChildren();
    const draws = [diagram("overall", "Top label", `calibration error ${percent(metrics.ece)}`, tables.top, "confidence")];
    const sure = panel("How sure it says it is", "", [
      ["right bar", "right"], ["wrong bar", "wrong"], ["said line", `mean confidence ${percent(result.confidence)}`],
      ["margin line", `accuracy ${percent(metrics.accuracy)}`],
    ]);
    $("overall").append(sure.figure);
    draws.push(() => orcuCharts.confidences(sure.svg, {
      table: tables.top, confidence: result.confidence, accuracy: metrics.accuracy, name: "Histogram of the confidence, right and wrong rows",
    }));
    const few = (place, errors) => {
      const chosen = drawn(errors);
      if (chosen.length < errors.length) {
        $(place).append(element("p", { class: "note" }, `The ${chosen.length} of ${errors.length} that are furthest off.`));
      }
      return chosen;
    };
    for (const k of few("by-class", result.classErrors)) {
      draws.push(diagram("by-class", classes[k], `error ${percent(result.classErrors[k])}`, tables.classes[k], "probability said"));
    }
    for (const k of few("by-threshold", result.thresholdErrors)) {
      const event = k + 2 < classes.length ? `${classes[k + 1]} or above` : classes[k + 1];
      draws.push(diagram("by-threshold", event, `error ${percent(result.thresholdErrors[k])}`, orcuJudge.event(tables.thresholds[k]),
        "probability said"));
    }
    const matrix = panel("True and decided class");
    $("decisions").append(matrix.figure);
    draws.push(() => orcuCharts.confusion(matrix.svg, {
      counts: result.confusion, names: classes, name: `Confusion matrix of ${counted(result.rows)} rows`,
    }));
    return () => draws.forEach(one => one());
  }

  /* ---- wiring ---- */

  $("file").addEventListener("change", () => { if ($("file").files.length) openFiles($("file").files); });
  $("file").addEventListener("click", () => { $("file").value = ""; }); // the same file may be chosen again
  const openPasted = () => { clear(""); openText($("pasted").value, "the pasted table"); };
  $("judge-pasted").addEventListener("click", openPasted);
  $("example").addEventListener("click", () => { // where it can be read, changed and copied
    $("pasted").value = orcuExample.csv();
    openPasted();
  });
  $("columns").addEventListener("input", event => {
    if (event.target.type === "checkbox") {
      const chosen = [...$("class-columns").querySelectorAll("input:checked")].map(box => box.value);
      choice = { ...choice, columns: chosen, order: chosen };
      renderOrder();
    }
    outdated();
  });
  $("columns").addEventListener("submit", event => {
    event.preventDefault();
    choice = {
      ...choice, label: $("label-column").value, labels: $("labels-say").value, kind: $("kind").value, confirmed: true,
    };
    guarded(judge);
  });
  $("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText($("command").textContent);
      $("copied").textContent = "The command is copied.";
    } catch {
      getSelection().selectAllChildren($("command"));
      $("copied").textContent = "The command is selected; copy it with the keyboard.";
    }
  });
  // a file that is dropped beside the field must not replace the page
  const carries = event => event.dataTransfer?.types.includes("Files");
  const over = held => $("source").classList.toggle("over", held);
  addEventListener("dragover", event => { if (carries(event)) { event.preventDefault(); over(true); } });
  addEventListener("dragleave", event => { if (!event.relatedTarget) over(false); });
  addEventListener("drop", event => {
    if (!carries(event)) return;
    event.preventDefault();
    over(false);
    orcuTabs.show("judge");
    openFiles(event.dataTransfer.files);
  });
  addEventListener("resize", () => draw?.());
  addEventListener("tab", () => draw?.());
  addEventListener("beforeprint", () => draw?.());
})();
