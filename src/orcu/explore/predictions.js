"use strict";
/* Predictions from a table: detection of the columns, order of the classes, and conversion of the labels. The rules are
   those of orcu.predictions; choices that the library requires are proposed if they are unambiguous, else asked for. */
const orcuPredictions = (() => {
  const MAX_CLASSES = 100;
  const SAMPLE_ROWS = 200; // for the detection of columns
  const SUM_TOLERANCE = 1e-3;
  const MAX_TOLERANCE = 1e-2; // largest error of a sum, for numbers with few digits
  const FLOAT_NOISE = 1e-6; // sums this close to 1 are not normalised
  const MAX_DIGITS = 9;
  const LABEL_NAMES = /^(labels?|y|y_?true|true|truth|true_?(label|class|grade)|target|class|grade|outcome|observed|actual|gold)$/i;
  const OTHER_NAMES = /^(id|index|row|weight|group|subject|patient|split|fold|batch|pred|preds|prediction|predicted|predicted_?(label|class|grade)|y_?pred|decision|argmax)$/i;
  const PREDICTION_NAMES = /^(p|probs?|proba|probability|z|logits?|scores?)[_.\- ]?$/i;
  const MISSING = new Set(["", "nan", "NaN", "<NA>", "null"]);
  const FLOAT = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
  const WHOLE = /^-?[0-9]+$/;

  const same = (a, b) => a.length === b.length && a.every((value, i) => value === b[i]);
  const positions = classes => classes.map((_, k) => String(k));
  const allNumbers = names => names.every(name => WHOLE.test(name));

  /* Canonical text of a label: 2, 2.0 and 02 are "2"; names are stripped. */
  function canonical(cell) {
    const text = cell.trim();
    if (!FLOAT.test(text)) return text;
    const number = Number(text);
    return Number.isInteger(number) && Math.abs(number) < 2 ** 53 ? String(number) : text;
  }

  const commonPrefix = columns => {
    let length = 0;
    while (columns.every(name => name.length > length && name[length] === columns[0][length])) length += 1;
    return columns[0].slice(0, length);
  };
  const namesAfter = (columns, prefix) => columns.map(name => canonical(name.slice(prefix.length)));

  /* Possible prefixes of the class names, longest first: "p_" in p_low, p_high, "p" in p0, p1, or none. */
  function prefixesOf(columns) {
    const common = commonPrefix(columns);
    const ends = Array.from(common.matchAll(/[_.\- ]/g), match => common.slice(0, match.index + 1));
    const numbered = common.replace(/\d*$/, "");
    if (columns.every(name => /^\d+$/.test(name.slice(numbered.length)))) ends.push(numbered);
    return ["", ...ends].filter(prefix => columns.every(name => name !== prefix)).reverse();
  }

  /* The prefix whose removal gives the names in the label column, else the longest prefix. */
  function prefixOf(table, { columns, label }) {
    const prefixes = prefixesOf(columns);
    const labels = table.names.includes(label) ? firstCells(table, label).map(canonical) : [];
    return prefixes.find(prefix => labels.every(text => namesAfter(columns, prefix).includes(text))) ?? prefixes[0];
  }

  const classNames = (table, choice) => namesAfter(choice.columns, prefixOf(table, choice));

  /* Class names that the library gives a list of columns: the text after a common prefix that ends in a separator. */
  function libraryNames(columns) {
    const prefix = commonPrefix(columns).replace(/\d*$/, "");
    const suffixes = columns.map(name => name.slice(prefix.length));
    return (suffixes.every(Boolean) && /[_.\- ]$/.test(prefix) ? suffixes : columns).map(canonical);
  }

  function firstCells(table, name) {
    const column = table.names.indexOf(name);
    return Array.from({ length: Math.min(table.rows, SAMPLE_ROWS) }, (_, row) => table.cell(row, column));
  }

  /* ---- proposal ---- */

  /* More than half, so that a missing or wrong cell does not hide its column. */
  const mostly = (cells, condition) => 2 * cells.filter(condition).length > cells.length;

  /* Sets of numeric columns that could be the predictions. */
  function candidateSets(table) {
    const numeric = table.names.filter(name => mostly(firstCells(table, name), cell => orcuTable.isNumber(cell, table.decimal)));
    const prefixes = new Set(numeric.flatMap(name => Array.from(name.matchAll(/[_.\- ](?=.)/g), match => name.slice(0, match.index + 1))));
    const beforeDigits = name => name.match(/^(.*\D)\d+$/)?.[1];
    const sets = [
      ...Array.from(prefixes, prefix => numeric.filter(name => name.startsWith(prefix) && name !== prefix)),
      ...Array.from(new Set(numeric.map(beforeDigits)), prefix => numeric.filter(name => prefix && beforeDigits(name) === prefix)),
    ];
    sets.push(numeric.filter(name => !LABEL_NAMES.test(name) && !OTHER_NAMES.test(name)));
    for (const label of table.names) { // columns named like the labels
      const values = new Set(firstCells(table, label).map(canonical));
      sets.push(numeric.filter(name => values.has(canonical(name)) && name !== label));
    }
    const distinct = new Map(sets.filter(set => set.length >= 2 && set.length <= MAX_CLASSES).map(set => [JSON.stringify(set), set]));
    return [...distinct.values()];
  }

  /* Whether the columns sum to a total in most of the first rows. */
  function sumsTo(table, columns, total) {
    const numbers = columns.map(name => firstCells(table, name).map(cell => Number(cell.trim().replace(table.decimal, "."))));
    return mostly(numbers[0], (_, row) => numbers.every(column => column[row] >= 0)
      && Math.abs(numbers.reduce((sum, column) => sum + column[row], 0) - total) <= 0.011 * total);
  }

  /* Proposed choice, and a question if it is ambiguous: { choice, question }. */
  function propose(table) {
    const sets = candidateSets(table);
    const sums = sets.filter(set => sumsTo(table, set, 1) || sumsTo(table, set, 100));
    const named = sets.filter(set => PREDICTION_NAMES.test(prefixesOf(set)[0]));
    const candidates = sums.length ? sums : named.length ? named : sets;
    const columns = candidates[0] ?? [];
    const { label, question: labelQuestion } = proposeLabel(table, columns);
    const choice = { label, columns, order: columns, kind: "probs", labels: "names", confirmed: false };
    if (candidates.length !== 1) {
      const several = candidates.map(set => `${set[0]} to ${set.at(-1)}`).join("; ");
      return {
        choice, question: `${table.name}: select the columns of the predictions, one per class, and the column of the true class`
          + `${several ? `; possible predictions: ${several}` : ""}. Columns: ${listNames(table.names)}.`,
      };
    }
    const { order, question: orderQuestion } = proposeOrder(table, choice);
    const questions = [labelQuestion, orderQuestion].filter(Boolean);
    return { choice: { ...choice, order }, question: questions.length ? `${table.name}: ${questions.join(" Also: ")}` : null };
  }

  /* The order of the columns, or of the numbers in their names. */
  function proposeOrder(table, choice) {
    const { columns } = choice;
    const names = classNames(table, choice);
    if (!allNumbers(names)) {
      return {
        order: columns, question: !same(names, names.slice().sort()) ? null
          : `the classes are in alphabetical order (${names.join(", ")}), which may not be their order. `
            + "Set the order below, lowest first; if it is correct, press Evaluate.",
      };
    }
    const order = columns.slice().sort((a, b) => names[columns.indexOf(a)] - names[columns.indexOf(b)]);
    return {
      order, question: same(order, columns) ? null
        : `the columns are in the order ${names.join(", ")}, which is not the numeric order. Set the order below.`,
    };
  }

  function proposeLabel(table, columns) {
    const others = table.names.filter(name => !columns.includes(name));
    const labels = name => firstCells(table, name).map(canonical);
    const matching = others.filter(name => columns.length && prefixesOf(columns).some(prefix => {
      const names = namesAfter(columns, prefix);
      return labels(name).every(text => names.includes(text));
    }));
    const named = others.filter(name => LABEL_NAMES.test(name));
    const certain = named.length ? (named.length === 1 ? named : named.filter(name => matching.includes(name)))
      // many columns have matching integers, but few have matching class names
      : matching.filter(name => !OTHER_NAMES.test(name) && (others.length === 1 || !allNumbers(labels(name))));
    if (certain.length === 1) return { label: certain[0], question: null };
    const question = others.length === 0
      ? "there are only columns of predictions; a column of true classes is needed to evaluate them."
      : `select the column of the true class. Columns besides the predictions: ${listNames(others)}.`;
    return { label: certain[0] ?? matching[0] ?? others[0] ?? "", question };
  }

  const listNames = names => names.slice(0, 30).join(", ") + (names.length > 30 ? `, and ${names.length - 30} more` : "");

  /* ---- reading ---- */

  /* The predictions of the chosen columns, with a check of every row. */
  function read(table, choice) {
    const classes = namesInOrder(table, choice);
    const notes = [
      table.note,
      `classes, lowest first: ${classes.map((name, k) => `${k} = ${name} (${choice.order[k]})`).join(", ")}`,
    ];
    const values = new Float64Array(table.rows * classes.length);
    choice.order.forEach((name, k) =>
      orcuTable.fillNumbers(table, table.names.indexOf(name), values, k, classes.length));
    const invalid = values.findIndex(value => !Number.isFinite(value));
    if (invalid >= 0) {
      throw new InputError(`${table.name}: row ${Math.floor(invalid / classes.length) + 1} has `
        + `${String(values[invalid]).replace("Infinity", "inf").replace("NaN", "nan")} in column `
        + `'${choice.order[invalid % classes.length]}', expected a finite number. Remove or correct such rows.`);
    }
    const logits = choice.kind === "logits";
    if (logits && looksNormalised(values, classes.length)) {
      notes.push("WARNING: every row of the logits is in [0, 1] and sums to 1; if they are probabilities, select that below");
    }
    if (choice.kind === "percent") values.forEach((value, i) => { values[i] = value / 100; });
    if (!logits) normalise(table, choice, values, notes);
    const labels = labelCodes(table, choice, classes, notes);
    const weight = table.names.find(name => /^weights?$/i.test(name) && name !== choice.label && !choice.columns.includes(name));
    if (weight) notes.push(`WARNING: the column '${weight}' is ignored, all rows have the same weight; use orcu evaluate --sample-weight`);
    return { rows: table.rows, classes, notes, labels, probs: logits ? null : values, logits: logits ? values : null };
  }

  function namesInOrder(table, choice) {
    const { label, columns, order } = choice;
    if (columns.length < 2) {
      throw new InputError(`${table.name}: expected one column per class and at least two classes; select them below. `
        + `Columns: ${listNames(table.names)}.`);
    }
    if (columns.length > MAX_CLASSES) throw new InputError(`${table.name}: ${columns.length} classes; this page supports up to ${MAX_CLASSES}.`);
    if (columns.includes(label)) throw new InputError(`${table.name}: '${label}' is selected for the labels and for a class; select another column below.`);
    if (!table.names.includes(label)) throw new InputError(`${table.name}: true classes are needed to evaluate predictions; select the label column below.`);
    const names = classNames(table, choice);
    if (new Set(names).size < names.length || names.includes("")) {
      throw new InputError(`${table.name}: class names must be unique and not empty, got ${names.join(", ")}.`);
    }
    return order.map(column => names[columns.indexOf(column)]);
  }

  /* Class number of each row's label. */
  function labelCodes(table, { label, labels }, classes, notes) {
    const column = table.names.indexOf(label);
    const byName = new Map(classes.map((name, k) => [name, k]));
    const numbered = same(classes, positions(classes));
    const byPosition = labels !== "names" && !(labels === "from 0" && numbered);
    if (byPosition && allNumbers(classes) && !numbered) {
      throw new InputError(`${table.name}: the class names are numbers (${classes.join(", ")}), so labels could be names or positions. `
        + "Rename the columns, or select class names for the labels.");
    }
    const first = labels === "from 1" ? 1 : 0;
    const codes = new Map(byPosition ? classes.map((_, k) => [String(k + first), k]) : byName);
    const cache = new Map();
    const result = new Int32Array(table.rows);
    for (let row = 0; row < table.rows; row++) {
      const cell = table.cell(row, column);
      let code = cache.get(cell);
      if (code === undefined) {
        code = codes.get(canonical(cell));
        if (code === undefined) throw new InputError(unknownLabel(table, label, row + 1, cell, [...codes.keys()], classes));
        cache.set(cell, code);
      }
      result[row] = code;
    }
    if (labels === "from 0" && byPosition && !result.includes(0)) {
      throw new InputError(`${table.name}: ${label}: labels are read as positions from 0, but none is 0, so they may start at 1. `
        + "Select positions from 1 or class names below.");
    }
    if (result.every(code => code === result[0])) {
      throw new InputError(`${table.name}: ${label}: all rows have the class '${classes[result[0]]}'; expected at least two of the classes `
        + `(${classes.join(", ")}).`);
    }
    notes.push(!byPosition ? `label column ${label}; labels are class names`
      : `label column ${label}; labels are positions of the classes from ${first}`);
    return result;
  }

  function unknownLabel(table, label, row, cell, codes, classes) {
    if (MISSING.has(cell.trim())) return `${table.name}: ${label}: row ${row} has no label. Add it or remove the row.`;
    const name = canonical(cell);
    const names = codes.length <= 12 ? codes.join(", ") : `${codes.length} names`;
    const hint = WHOLE.test(name) && name === String(classes.length) && codes[0] === "0"
      ? "If labels start at 1, select positions from 1 below."
      : WHOLE.test(name) && !allNumbers(codes) ? "If labels are positions of the classes, select positions from 0 or 1 below."
        : "Select the label column and the classes below.";
    return `${table.name}: ${label}: row ${row} has label '${name}', which is not one of the classes (${names}). ${hint}`;
  }

  /* Decimals that represent all values, at most 9. */
  function decimalDigits(values) {
    for (let digits = 1; digits < MAX_DIGITS; digits++) {
      const power = 10 ** digits;
      if (values.every(value => Math.abs(value * power - Math.round(value * power)) < 1e-6)) return digits;
    }
    return MAX_DIGITS;
  }

  /* Normalise rows whose sum differs from 1 by rounding errors, in place; larger errors raise. */
  function normalise(table, { order, kind }, values, notes) {
    const classes = order.length;
    const hint = kind === "percent" ? "If these are logits or fractions, select that below."
      : "If these are logits, select that below; if they sum to 100, select percent.";
    const outside = values.findIndex(value => value < 0 || value > 1);
    if (outside >= 0) {
      throw new InputError(`${table.name}: row ${Math.floor(outside / classes) + 1} has ${Number(values[outside].toPrecision(6))} in column `
        + `'${order[outside % classes]}', expected values in [0, 1]${kind === "percent" ? " after the division by 100" : ""}. ${hint}`);
    }
    const rounding = 0.5 * 10 ** -decimalDigits(values);
    const tolerance = Math.min(Math.max(SUM_TOLERANCE, classes * rounding), MAX_TOLERANCE);
    let [normalised, largest] = [0, 0];
    for (let at = 0; at < values.length; at += classes) {
      let sum = 0;
      for (let k = 0; k < classes; k++) sum += values[at + k];
      const error = Math.abs(sum - 1);
      if (error > tolerance * (1 + 1e-9)) {
        throw new InputError(`${table.name}: row ${at / classes + 1} sums to ${Number(sum.toPrecision(6))}, expected 1 ± `
          + `${Number(tolerance.toPrecision(6))} over ${listNames(order)}. ${hint}`);
      }
      if (error > FLOAT_NOISE) {
        normalised += 1;
        largest = Math.max(largest, error);
        for (let k = 0; k < classes; k++) values[at + k] /= sum;
      }
    }
    if (normalised) notes.push(`${normalised.toLocaleString("en-US")} rows were normalised; their sums differed from 1 by up to ${Number(largest.toPrecision(2))}`);
  }

  function looksNormalised(values, classes) {
    for (let at = 0; at < values.length; at += classes) {
      let sum = 0;
      for (let k = 0; k < classes; k++) {
        if (values[at + k] < 0) return false;
        sum += values[at + k];
      }
      if (!(Math.abs(sum - 1) < 1e-3)) return false;
    }
    return true;
  }

  /* ---- command ---- */

  const quoted = text => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`);
  const option = (name, value) => (value.startsWith("-") ? `${name}=${quoted(value)}` : `${name} ${quoted(value)}`);

  /* The `orcu evaluate` command for the same choice; null if the names cannot be written on the command line. */
  function command(table, choice, file) {
    const { label, columns, order, kind, labels, confirmed } = choice;
    const prefix = prefixOf(table, choice);
    const names = namesAfter(columns, prefix);
    const classes = order.map(column => names[columns.indexOf(column)]);
    const starred = prefix && !prefix.includes("*")
      && same(order, table.names.filter(name => name.startsWith(prefix) && name !== label));
    if (!starred && order.some(name => /[,*]/.test(name))) return null;
    const given = labels === "from 1" ? classes.map((_, k) => String(k + 1))
      : confirmed || labels !== "names" || !(starred || same(classes, libraryNames(order))) ? classes : null;
    if (given?.some(name => name.includes(","))) return null;
    const parts = ["orcu evaluate", quoted(file.startsWith("-") ? `./${file}` : file), option("--label", label)];
    parts.push(option(kind === "logits" ? "--logits" : "--probs", starred ? `${prefix}*` : order.join(",")));
    if (given) parts.push(option("--classes", given.join(",")));
    if (kind === "percent") parts.push("--percent");
    return [...parts, "--report report.html"].join(" ");
  }

  return Object.freeze({ MAX_CLASSES, canonical, classNames, propose, read, command });
})();
