"use strict";
/* CSV reader with the rules of orcu.io: separator, decimal sign and header are detected in the first lines. Invalid
   files raise an InputError. Row numbers start at 1 below the header. */
class InputError extends Error {}

const orcuTable = (() => {
  const MAX_FILE_SIZE = 100e6; // bytes; larger files would block the browser
  const MAX_LINE_LENGTH = 1 << 20;
  const SAMPLE_LINES = 20; // for the detection
  const SEPARATORS = { ",": "comma", ";": "semicolon", "\t": "tab", "|": "bar" };
  const COMMA_NUMBER = /^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$/;
  const POINT_NUMBER = /^\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*$/;
  const NUMBER = /^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
  const NOT_FINITE = /^-?(nan|inf|infinity)$/i;
  const [NEW_LINE, RETURN, QUOTE] = [10, 13, 34];
  const FORMATS = [ // first bytes of binary files
    [[0x50, 0x4b], "an Excel workbook or a ZIP archive, not a CSV. In Excel, save as 'CSV UTF-8'."],
    [[0xd0, 0xcf, 0x11, 0xe0], "an old Excel workbook, not a CSV. In Excel, save as 'CSV UTF-8'."],
    [[0x50, 0x41, 0x52, 0x31], "a Parquet file; this page reads only CSV. Use `orcu evaluate` for Parquet."],
    [[0x1f, 0x8b], "a compressed file; decompress it first. `orcu evaluate` reads .csv.gz."],
  ];

  function checkSize(bytes, name) {
    if (bytes === 0) throw new InputError(`${name}: the file is empty.`);
    if (bytes > MAX_FILE_SIZE) {
      throw new InputError(`${name}: has ${Math.round(bytes / 1e6)} MB; this page reads files up to ${MAX_FILE_SIZE / 1e6} MB. `
        + "`orcu evaluate` reads files of any size.");
    }
  }

  /* The text of a file's bytes, without a byte-order mark. */
  function textOf(buffer, name) {
    const bytes = new Uint8Array(buffer);
    const format = FORMATS.find(([start]) => start.every((byte, i) => bytes[i] === byte));
    if (format) throw new InputError(`${name}: ${format[1]}`);
    let text = null;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      throw new InputError(`${name}: not valid UTF-8 text. In Excel, save as 'CSV UTF-8'.`);
    }
    if (text.includes("\0")) throw new InputError(`${name}: contains zero bytes, so it is not a text file.`);
    return text;
  }

  /* Start and end of every cell, and the number of cells up to the end of each row. */
  function scan(text, separator, from = 0) {
    const between = separator.charCodeAt(0);
    const ends = [];
    let bounds = new Uint32Array(1 << 12);
    let cells = 0;
    let unclosed = false;
    let at = from;
    while (at < text.length) {
      const first = text.charCodeAt(at);
      if (first === NEW_LINE || first === RETURN) { at += 1; continue; } // skip empty lines
      for (let more = true; more;) {
        if (2 * cells + 2 > bounds.length) {
          const larger = new Uint32Array(2 * bounds.length);
          larger.set(bounds);
          bounds = larger;
        }
        bounds[2 * cells] = at;
        if (text.charCodeAt(at) === QUOTE) {
          at = afterQuotes(text, at);
          unclosed = unclosed || at > text.length;
        }
        let code = text.charCodeAt(at);
        while (at < text.length && code !== between && code !== NEW_LINE && code !== RETURN) code = text.charCodeAt(++at);
        bounds[2 * cells + 1] = at;
        cells += 1;
        more = at < text.length && code === between;
        at += 1;
      }
      if (text.charCodeAt(at - 1) === RETURN && text.charCodeAt(at) === NEW_LINE) at += 1;
      ends.push(cells);
    }
    return { bounds, ends, unclosed };
  }

  /* Index after the closing quotation mark; beyond the text if there is none. */
  function afterQuotes(text, open) {
    let at = text.indexOf("\"", open + 1);
    while (at >= 0 && text.charCodeAt(at + 1) === QUOTE) at = text.indexOf("\"", at + 2);
    return at < 0 ? text.length + 1 : at + 1;
  }

  function cellOf(text, bounds, cell) {
    const raw = text.slice(bounds[2 * cell], bounds[2 * cell + 1]);
    if (raw.charCodeAt(0) !== QUOTE) return raw;
    const close = afterQuotes(raw, 0);
    return raw.slice(1, close - 1).replaceAll("\"\"", "\"") + raw.slice(close);
  }

  const countsOf = ends => ends.map((end, row) => end - (row ? ends[row - 1] : 0));

  /* The first non-blank lines, their start, and whether the text has no more lines. */
  function firstLines(text, name) {
    const lines = [];
    let from = -1;
    let at = 0;
    for (let number = 1; at < text.length && number <= SAMPLE_LINES; number++) {
      const end = /\r\n|\n|\r|$/g;
      end.lastIndex = at;
      const { index, 0: sign } = end.exec(text);
      if (index - at >= MAX_LINE_LENGTH) {
        throw new InputError(`${name}: line ${number} has more than ${MAX_LINE_LENGTH.toLocaleString("en-US")} characters. Check that the file is a table.`);
      }
      const line = text.slice(at, index);
      if (line.trim()) {
        if (from < 0) from = at;
        lines.push(line);
      }
      at = index + Math.max(sign.length, 1);
    }
    if (!lines.length) throw new InputError(`${name}: the file is empty.`);
    return { lines, from, complete: at >= text.length };
  }

  /* The separator that splits all sample rows into the same number of cells; the largest number wins. */
  function detectSeparator(lines, complete) {
    let [best, most] = [",", 1];
    for (const candidate of Object.keys(SEPARATORS)) {
      let counts = countsOf(scan(lines.join("\n"), candidate).ends);
      if (!complete && counts.length > 2) counts = counts.slice(0, -1); // a quoted cell may continue in the next line
      if (new Set(counts).size === 1 && counts[0] > most) [best, most] = [candidate, counts[0]];
    }
    return best;
  }

  /* Comma if numbers have a decimal comma; with comma separators only if none has a decimal point. */
  function detectDecimal(cells, separator) {
    if (!cells.some(cell => COMMA_NUMBER.test(cell))) return ".";
    return separator === "," && cells.some(cell => POINT_NUMBER.test(cell)) ? "." : ",";
  }

  /* A table: column names, number of rows, decimal sign, and `cell(row, column)`, both from 0. */
  function read(text, name) {
    const { lines, from, complete } = firstLines(text, name);
    const separator = detectSeparator(lines, complete);
    const sample = scan(lines.join("\n"), separator);
    const cells = Array.from({ length: sample.ends.at(-1) }, (_, cell) => cellOf(lines.join("\n"), sample.bounds, cell));
    const { bounds, ends, unclosed } = scan(text, separator, from);
    const names = cells.slice(0, sample.ends[0]).map(cell => cell.trim());
    const width = names.length;
    const decimal = detectDecimal(cells.slice(width), separator);
    if (unclosed) throw new InputError(`${name}: a quotation mark is never closed.`);
    if (width < 2) {
      throw new InputError(`${name}: has a single column, '${names[0]}'; expected a label column and one column per class. `
        + "Supported separators are comma, semicolon, tab and bar.");
    }
    if (names.every(column => NUMBER.test(column)) && names.some(column => !/^-?\d+$/.test(column))) {
      throw new InputError(`${name}: the first line has only numbers (${names.slice(0, 5).join(", ")}); expected column names.`);
    }
    const duplicate = names.find((column, i) => names.indexOf(column) < i);
    if (duplicate !== undefined) throw new InputError(`${name}: duplicate column '${duplicate}'.`);
    if (ends.length < 2) throw new InputError(`${name}: no rows below the header.`);
    const ragged = ends.findIndex((end, row) => end !== (row + 1) * width);
    if (ragged >= 0) {
      throw new InputError(`${name}: row ${ragged} has ${ends[ragged] - ragged * width} cells, expected ${width} as in the header.`);
    }
    return {
      name, names, decimal, rows: ends.length - 1,
      note: `separator ${SEPARATORS[separator]}, decimal ${decimal === "." ? "point" : "comma"} (detected)`,
      cell: (row, column) => cellOf(text, bounds, (row + 1) * width + column),
    };
  }

  /* A number with a decimal point. */
  const plainNumber = (cell, decimal) => (decimal === "," ? cell.trim().replace(",", ".") : cell.trim());

  const isNumber = (cell, decimal) => NUMBER.test(plainNumber(cell, decimal));

  /* Write the numbers of a column to every `step`-th entry of an array, starting at `first`. */
  function fillNumbers(table, column, array, first, step) {
    const name = table.names[column];
    for (let row = 0; row < table.rows; row++) {
      const cell = table.cell(row, column);
      const number = plainNumber(cell, table.decimal);
      if (table.decimal === "," && cell.includes(".")) {
        throw new InputError(`${table.name}: column '${name}': row ${row + 1} has '${cell.trim()}' with a point, but the `
          + "decimal sign is a comma. Use one decimal sign and no thousands separators.");
      } else if (!NUMBER.test(number)) {
        if (!NOT_FINITE.test(number)) throw new InputError(notANumber(table, name, row + 1, cell.trim()));
        array[first + row * step] = number.startsWith("-") ? -Infinity : /^n/i.test(number) ? NaN : Infinity;
      } else array[first + row * step] = Number(number);
    }
  }

  function notANumber(table, name, row, cell) {
    if (!cell) return `${table.name}: column '${name}': row ${row} is empty, expected a number.`;
    const hint = cell.endsWith("%") ? "Remove the percent signs and select percent below."
      : "Check separator and decimal sign, or select other columns below.";
    return `${table.name}: column '${name}': row ${row} has '${cell}', which is not a number. ${hint}`;
  }

  return Object.freeze({ MAX_FILE_SIZE, checkSize, textOf, read, isNumber, fillNumbers });
})();
