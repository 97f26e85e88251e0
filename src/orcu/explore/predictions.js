"use strict";
/* A table becomes predictions: which columns hold what, in which order the classes stand, and which class each label
   names. The rules and the words are those of orcu.predictions; where the library wants to be told, the page proposes
   what is beyond doubt and asks for the rest. */
const orcuPredictions = (() => {
  const MOST_CLASSES = 100;
  const LOOKED_AT = 200; // rows, to propose columns
  const SUM_TOLERANCE = 1e-3;
  const LARGEST_TOLERANCE = 1e-2; // however few digits are printed: a row that misses 1 by more is no distribution
  const FLOAT_NOISE = 1e-6; // sums this close to 1 are rounding, and stay
  const ALL_DIGITS = 9;
  const LABEL_NAMES = /^(labels?|y|y_?true|true|truth|true_?(label|class|grade)|target|class|grade|outcome|observed|actual|gold)$/i;
  const OTHER_NAMES = /^(id|index|row|weight|group|subject|patient|split|fold|batch|pred|preds|prediction|predicted|predicted_?(label|class|grade)|y_?pred|decision|argmax)$/i;
  const PREDICTION_NAMES = /^(p|probs?|proba|probability|z|logits?|scores?)[_.\- ]?$/i;
  const MISSING = new Set(["", "nan", "NaN", "<NA>", "null"]);
  const FLOAT = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
  const WHOLE = /^-?[0-9]+$/;

  const same = (a, b) => a.length === b.length && a.every((one, i) => one === b[i]);
  const positions = classes => classes.map((_, k) => String(k));
  const allNumbers = names => names.every(name => WHOLE.test(name));

  /* One text for a label however it was written: 2, 2.0 and 02 are "2"; names are stripped. */
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

  /* What may stand before the names of the classes, longest first: "p_" in p_low, p_high, "p" in p0, p1, or nothing. */
  function prefixesOf(columns) {
    const common = commonPrefix(columns);
    const ends = Array.from(common.matchAll(/[_.\- ]/g), match => common.slice(0, match.index + 1));
    const numbered = common.replace(/\d*$/, "");
    if (columns.every(name => /^\d+$/.test(name.slice(numbered.length)))) ends.push(numbered);
    return ["", ...ends].filter(prefix => columns.every(name => name !== prefix)).reverse();
  }

  /* The prefix that leaves the names which the labels have; where none does, the longest. */
  function prefixOf(table, { columns, label }) {
    const prefixes = prefixesOf(columns);
    const labels = table.names.includes(label) ? firstCells(table, label).map(canonical) : [];
    return prefixes.find(prefix => labels.every(one => namesAfter(columns, prefix).includes(one))) ?? prefixes[0];
  }

  const classNames = (table, choice) => namesAfter(choice.columns, prefixOf(table, choice));

  /* What the library calls the classes of a list of columns: what follows a common prefix that ends in a sign. */
  function namesOfList(columns) {
    const prefix = commonPrefix(columns).replace(/\d*$/, "");
    const cut = columns.map(name => name.slice(prefix.length));
    return (cut.every(Boolean) && /[_.\- ]$/.test(prefix) ? cut : columns).map(canonical);
  }

  function firstCells(table, name) {
    const column = table.names.indexOf(name);
    return Array.from({ length: Math.min(table.rows, LOOKED_AT) }, (_, row) => table.cell(row, column));
  }

  /* ---- what the page proposes ---- */

  /* More than half: a cell that is missing or wrong must not hide its column. */
  const mostly = (cells, holds) => 2 * cells.filter(holds).length > cells.length;

  /* Columns of numbers, and the sets of them that could hold one prediction. */
  function candidateSets(table) {
    const numeric = table.names.filter(name => mostly(firstCells(table, name), cell => orcuTable.isNumber(cell, table.decimal)));
    const signed = new Set(numeric.flatMap(name => Array.from(name.matchAll(/[_.\- ](?=.)/g), match => name.slice(0, match.index + 1))));
    const beforeDigits = name => name.match(/^(.*\D)\d+$/)?.[1];
    const sets = [
      ...Array.from(signed, prefix => numeric.filter(name => name.startsWith(prefix) && name !== prefix)),
      ...Array.from(new Set(numeric.map(beforeDigits)), prefix => numeric.filter(name => prefix && beforeDigits(name) === prefix)),
    ];
    sets.push(numeric.filter(name => !LABEL_NAMES.test(name) && !OTHER_NAMES.test(name)));
    for (const label of table.names) { // columns that are called as the labels are
      const values = new Set(firstCells(table, label).map(canonical));
      sets.push(numeric.filter(name => values.has(canonical(name)) && name !== label));
    }
    const distinct = new Map(sets.filter(set => set.length >= 2 && set.length <= MOST_CLASSES).map(set => [JSON.stringify(set), set]));
    return [...distinct.values()];
  }

  /* Whether most of the first rows of some columns add up to a total. */
  function addUpTo(table, columns, total) {
    const numbers = columns.map(name => firstCells(table, name).map(cell => Number(cell.trim().replace(table.decimal, "."))));
    return mostly(numbers[0], (_, row) => numbers.every(column => column[row] >= 0)
      && Math.abs(numbers.reduce((sum, column) => sum + column[row], 0) - total) <= 0.011 * total);
  }

  /* What the table seems to hold, and what has to be asked: { choice, doubt }. */
  function propose(table) {
    const sets = candidateSets(table);
    const sums = sets.filter(set => addUpTo(table, set, 1) || addUpTo(table, set, 100));
    const known = sets.filter(set => PREDICTION_NAMES.test(prefixesOf(set)[0]));
    const fitting = sums.length ? sums : known.length ? known : sets;
    const columns = fitting[0] ?? [];
    const { label, doubt: labelDoubt } = proposeLabel(table, columns);
    const choice = { label, columns, order: columns, kind: "probs", labels: "names", confirmed: false };
    if (fitting.length !== 1) {
      const several = fitting.map(set => `${set[0]} to ${set.at(-1)}`).join("; ");
      return {
        choice, doubt: `${table.name}: say below which columns hold the predictions, one per class, and which the true class`
          + `${several ? `; several could hold predictions: ${several}` : ""}. The columns are: ${listed(table.names)}.`,
      };
    }
    const { order, doubt: orderDoubt } = proposeOrder(table, choice);
    const doubts = [labelDoubt, orderDoubt].filter(Boolean);
    return { choice: { ...choice, order }, doubt: doubts.length ? `${table.name}: ${doubts.join(" Also, ")}` : null };
  }

  /* The order of the columns, or of the numbers that they are called by. */
  function proposeOrder(table, choice) {
    const { columns } = choice;
    const names = classNames(table, choice);
    if (!allNumbers(names)) {
      return {
        order: columns, doubt: !same(names, names.slice().sort()) ? null
          : `the classes stand in the order of the alphabet (${names.join(", ")}), which says nothing about theirs. `
            + "Say the order below, lowest first; if it is this one, press Judge.",
      };
    }
    const order = columns.slice().sort((a, b) => names[columns.indexOf(a)] - names[columns.indexOf(b)]);
    return {
      order, doubt: same(order, columns) ? null
        : `the classes stand in the order ${names.join(", ")}, which is not their numeric order. Say the order below.`,
    };
  }

  function proposeLabel(table, columns) {
    const others = table.names.filter(name => !columns.includes(name));
    const labels = name => firstCells(table, name).map(canonical);
    const fitting = others.filter(name => columns.length && prefixesOf(columns).some(prefix => {
      const names = namesAfter(columns, prefix);
      return labels(name).every(one => names.includes(one));
    }));
    const called = others.filter(name => LABEL_NAMES.test(name));
    const sure = called.length ? (called.length === 1 ? called : called.filter(name => fitting.includes(name)))
      // integers fit many columns; texts that are names of classes hardly a second one
      : fitting.filter(name => !OTHER_NAMES.test(name) && (others.length === 1 || !allNumbers(labels(name))));
    if (sure.length === 1) return { label: sure[0], doubt: null };
    const doubt = others.length === 0
      ? "there is no column besides the predictions; what came true is needed to judge them."
      : `say below which column holds the true class. The columns besides the predictions are: ${listed(others)}.`;
    return { label: sure[0] ?? fitting[0] ?? others[0] ?? "", doubt };
  }

  const listed = names => names.slice(0, 30).join(", ") + (names.length > 30 ? `, and ${names.length - 30} more` : "");

  /* ---- what is read ---- */

  /* The predictions of the chosen columns; every row is checked. */
  function read(table, choice) {
    const classes = namesInOrder(table, choice);
    const notes = [
      table.note,
      `classes, lowest first: ${classes.map((name, k) => `${k} = ${name} (${choice.order[k]})`).join(", ")}`,
    ];
    const values = new Float64Array(table.rows * classes.length);
    choice.order.forEach((name, k) =>
      orcuTable.fillNumbers(table, table.names.indexOf(name), values, k, classes.length));
    const strange = values.findIndex(value => !Number.isFinite(value));
    if (strange >= 0) {
      throw new Refusal(`${table.name}: row ${Math.floor(strange / classes.length) + 1} has `
        + `${String(values[strange]).replace("Infinity", "inf").replace("NaN", "nan")} in column `
        + `'${choice.order[strange % classes.length]}'; every value must be finite. Drop or repair such rows first.`);
    }
    const logits = choice.kind === "logits";
    if (logits && looksNormalised(values, classes.length)) {
      notes.push("WARNING: every row of the logits lies in [0, 1] and sums to 1: are these probabilities? Then say so below");
    }
    if (choice.kind === "percent") values.forEach((value, i) => { values[i] = value / 100; });
    if (!logits) normalise(table, choice, values, notes);
    const labels = labelCodes(table, choice, classes, notes);
    const weight = table.names.find(name => /^weights?$/i.test(name) && name !== choice.label && !choice.columns.includes(name));
    if (weight) notes.push(`WARNING: the column '${weight}' is left aside: here every row counts alike; orcu evaluate takes --weight`);
    return { rows: table.rows, classes, notes, labels, probs: logits ? null : values, logits: logits ? values : null };
  }

  function namesInOrder(table, choice) {
    const { label, columns, order } = choice;
    if (columns.length < 2) {
      throw new Refusal(`${table.name}: one column per class and at least two classes are needed; choose them below. `
        + `The columns are: ${listed(table.names)}.`);
    }
    if (columns.length > MOST_CLASSES) throw new Refusal(`${table.name}: ${columns.length} classes; the page shows up to ${MOST_CLASSES}.`);
    if (columns.includes(label)) throw new Refusal(`${table.name}: '${label}' cannot hold both the labels and a class; choose another column below.`);
    if (!table.names.includes(label)) throw new Refusal(`${table.name}: what came true is needed to judge predictions; choose the label column below.`);
    const names = classNames(table, choice);
    if (new Set(names).size < names.length || names.includes("")) {
      throw new Refusal(`${table.name}: names of classes must be different and not empty, got ${names.join(", ")}.`);
    }
    return order.map(column => names[columns.indexOf(column)]);
  }

  /* The class of each row's label. */
  function labelCodes(table, { label, labels }, classes, notes) {
    const column = table.names.indexOf(label);
    const byName = new Map(classes.map((name, k) => [name, k]));
    const numbered = same(classes, positions(classes));
    const counted = labels !== "names" && !(labels === "from 0" && numbered);
    if (counted && allNumbers(classes) && !numbered) {
      throw new Refusal(`${table.name}: the classes are numbers themselves (${classes.join(", ")}), so a label could be a name or a `
        + "position. Rename the columns, or match labels by name.");
    }
    const first = labels === "from 1" ? 1 : 0;
    const codes = new Map(counted ? classes.map((_, k) => [String(k + first), k]) : byName);
    const known = new Map();
    const result = new Int32Array(table.rows);
    for (let row = 0; row < table.rows; row++) {
      const cell = table.cell(row, column);
      let code = known.get(cell);
      if (code === undefined) {
        code = codes.get(canonical(cell));
        if (code === undefined) throw new Refusal(noClass(table, label, row + 1, cell, [...codes.keys()], classes));
        known.set(cell, code);
      }
      result[row] = code;
    }
    if (labels === "from 0" && counted && !result.includes(0)) {
      throw new Refusal(`${table.name}: ${label}: labels are taken as positions 0, 1, ... of the classes, but none is 0, so they may `
        + "start at 1. Say below that they count from 1, or match them by name.");
    }
    if (result.every(code => code === result[0])) {
      throw new Refusal(`${table.name}: ${label}: every row has the class '${classes[result[0]]}'; at least two of the classes `
        + `(${classes.join(", ")}) must occur to judge a model.`);
    }
    notes.push(!counted ? `label column ${label}; labels matched to class names by value`
      : `label column ${label}; labels taken as positions ${first}, ${first + 1}, ... of the classes`);
    return result;
  }

  function noClass(table, label, row, cell, codes, classes) {
    if (MISSING.has(cell.trim())) return `${table.name}: ${label}: row ${row} has no label. Fill it in or drop the row.`;
    const name = canonical(cell);
    const known = codes.length <= 12 ? codes.join(", ") : `${codes.length} names`;
    const hint = WHOLE.test(name) && name === String(classes.length) && codes[0] === "0"
      ? "If labels start at 1, say below that they count from 1."
      : WHOLE.test(name) && !allNumbers(codes) ? "If labels are positions of the classes, say below that they count from 0 or from 1."
        : "Choose the label column and the classes below.";
    return `${table.name}: ${label}: row ${row} has label '${name}', which is none of the classes (${known}). ${hint}`;
  }

  /* Digits after the point that write all the values, up to 9. */
  function printedDecimals(values) {
    for (let digits = 1; digits < ALL_DIGITS; digits++) {
      const power = 10 ** digits;
      if (values.every(value => Math.abs(value * power - Math.round(value * power)) < 1e-6)) return digits;
    }
    return ALL_DIGITS;
  }

  /* Rows that miss 1 by no more than the rounding of their numbers are normalised in place; others are refused. */
  function normalise(table, { order, kind }, values, notes) {
    const classes = order.length;
    const hint = kind === "percent" ? "If these are logits or fractions, say so below."
      : "If these are logits, say so below; if they sum to 100, say percent.";
    const outside = values.findIndex(value => value < 0 || value > 1);
    if (outside >= 0) {
      throw new Refusal(`${table.name}: row ${Math.floor(outside / classes) + 1} has ${Number(values[outside].toPrecision(6))} in column `
        + `'${order[outside % classes]}', expected values in [0, 1]${kind === "percent" ? " after the division by 100" : ""}. ${hint}`);
    }
    const rounding = 0.5 * 10 ** -printedDecimals(values);
    const tolerance = Math.min(Math.max(SUM_TOLERANCE, classes * rounding), LARGEST_TOLERANCE);
    let [off, worst] = [0, 0];
    for (let at = 0; at < values.length; at += classes) {
      let sum = 0;
      for (let k = 0; k < classes; k++) sum += values[at + k];
      const miss = Math.abs(sum - 1);
      if (miss > tolerance * (1 + 1e-9)) {
        throw new Refusal(`${table.name}: row ${at / classes + 1} sums to ${Number(sum.toPrecision(6))}, expected 1 ± `
          + `${Number(tolerance.toPrecision(6))} over ${listed(order)}. ${hint}`);
      }
      if (miss > FLOAT_NOISE) {
        off += 1;
        worst = Math.max(worst, miss);
        for (let k = 0; k < classes; k++) values[at + k] /= sum;
      }
    }
    if (off) notes.push(`${off.toLocaleString("en-US")} rows missed a sum of 1 by up to ${Number(worst.toPrecision(2))} and were normalised`);
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

  /* ---- the same for orcu evaluate ---- */

  const quoted = text => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`);
  const option = (name, value) => (value.startsWith("-") ? `${name}=${quoted(value)}` : `${name} ${quoted(value)}`);

  /* The command that judges the same columns of a file in the same way; null if it cannot name them. */
  function command(table, choice, file) {
    const { label, columns, order, kind, labels, confirmed } = choice;
    const prefix = prefixOf(table, choice);
    const names = namesAfter(columns, prefix);
    const classes = order.map(column => names[columns.indexOf(column)]);
    const starred = prefix && !prefix.includes("*")
      && same(order, table.names.filter(name => name.startsWith(prefix) && name !== label));
    if (!starred && order.some(name => /[,*]/.test(name))) return null;
    const asked = labels === "from 1" ? classes.map((_, k) => String(k + 1))
      : confirmed || labels !== "names" || !(starred || same(classes, namesOfList(order))) ? classes : null;
    if (asked?.some(name => name.includes(","))) return null;
    const parts = ["orcu evaluate", quoted(file.startsWith("-") ? `./${file}` : file), option("--label", label)];
    parts.push(option(kind === "logits" ? "--logits" : "--probs", starred ? `${prefix}*` : order.join(",")));
    if (asked) parts.push(option("--classes", asked.join(",")));
    if (kind === "percent") parts.push("--percent");
    return [...parts, "--report report.html"].join(" ");
  }

  return Object.freeze({ MOST_CLASSES, canonical, classNames, propose, read, command });
})();
