"use strict";
/* Reading a CSV as orcu.io does: its separator, its decimal sign and its header are read off its first lines, and
   what cannot be read is refused with words. Rows count from 1 below the header. */
class Refusal extends Error {}

const orcuTable = (() => {
  const LARGEST_FILE = 100e6; // bytes: a browser should not hang
  const LONGEST_LINE = 1 << 20;
  const LINES = 20; // that are looked at
  const SEPARATORS = { ",": "comma", ";": "semicolon", "\t": "tab", "|": "bar" };
  const COMMA_NUMBER = /^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$/;
  const POINT_NUMBER = /^\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*$/;
  const NUMBER = /^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
  const NOT_FINITE = /^-?(nan|inf|infinity)$/i;
  const [NEW_LINE, RETURN, QUOTE] = [10, 13, 34];
  const FORMATS = [ // how files begin that are no text
    [[0x50, 0x4b], "an Excel workbook or a ZIP archive, not a CSV. In Excel, save as 'CSV UTF-8'."],
    [[0xd0, 0xcf, 0x11, 0xe0], "an old Excel workbook, not a CSV. In Excel, save as 'CSV UTF-8'."],
    [[0x50, 0x41, 0x52, 0x31], "a Parquet file; the page reads CSV alone, `orcu evaluate` reads Parquet too."],
    [[0x1f, 0x8b], "a packed file; unpack it first. `orcu evaluate` reads .csv.gz as it is."],
  ];

  function checkSize(bytes, name) {
    if (bytes === 0) throw new Refusal(`${name}: the file is empty.`);
    if (bytes > LARGEST_FILE) {
      throw new Refusal(`${name}: has ${Math.round(bytes / 1e6)} MB, and the page reads up to ${LARGEST_FILE / 1e6} MB. `
        + "`orcu evaluate` reads files of any size.");
    }
  }

  /* The text of a file's bytes, without a byte-order mark. */
  function textOf(buffer, name) {
    const bytes = new Uint8Array(buffer);
    const format = FORMATS.find(([start]) => start.every((byte, i) => bytes[i] === byte));
    if (format) throw new Refusal(`${name}: ${format[1]}`);
    let text = null;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      throw new Refusal(`${name}: not readable as UTF-8 text. In Excel, save as 'CSV UTF-8'.`);
    }
    if (text.includes("\0")) throw new Refusal(`${name}: holds zero bytes, so it is no text. Is it a CSV?`);
    return text;
  }

  /* Where every cell begins and ends, and how many cells there are up to the end of each row. */
  function scan(text, separator, from = 0) {
    const between = separator.charCodeAt(0);
    const ends = [];
    let places = new Uint32Array(1 << 12);
    let cells = 0;
    let unclosed = false;
    let at = from;
    while (at < text.length) {
      const first = text.charCodeAt(at);
      if (first === NEW_LINE || first === RETURN) { at += 1; continue; } // an empty line is no row
      for (let more = true; more;) {
        if (2 * cells + 2 > places.length) {
          const larger = new Uint32Array(2 * places.length);
          larger.set(places);
          places = larger;
        }
        places[2 * cells] = at;
        if (text.charCodeAt(at) === QUOTE) {
          at = afterQuotes(text, at);
          unclosed = unclosed || at > text.length;
        }
        let code = text.charCodeAt(at);
        while (at < text.length && code !== between && code !== NEW_LINE && code !== RETURN) code = text.charCodeAt(++at);
        places[2 * cells + 1] = at;
        cells += 1;
        more = at < text.length && code === between;
        at += 1;
      }
      if (text.charCodeAt(at - 1) === RETURN && text.charCodeAt(at) === NEW_LINE) at += 1;
      ends.push(cells);
    }
    return { places, ends, unclosed };
  }

  /* The place behind the quotation mark that closes the one at a place; beyond the text if none does. */
  function afterQuotes(text, open) {
    let at = text.indexOf("\"", open + 1);
    while (at >= 0 && text.charCodeAt(at + 1) === QUOTE) at = text.indexOf("\"", at + 2);
    return at < 0 ? text.length + 1 : at + 1;
  }

  function cellOf(text, places, cell) {
    const raw = text.slice(places[2 * cell], places[2 * cell + 1]);
    if (raw.charCodeAt(0) !== QUOTE) return raw;
    const close = afterQuotes(raw, 0);
    return raw.slice(1, close - 1).replaceAll("\"\"", "\"") + raw.slice(close);
  }

  const countsOf = ends => ends.map((end, row) => end - (row ? ends[row - 1] : 0));

  /* The first lines that are not blank, where they begin, and whether they are all there are. */
  function firstLines(text, name) {
    const lines = [];
    let from = -1;
    let at = 0;
    for (let number = 1; at < text.length && number <= LINES; number++) {
      const end = /\r\n|\n|\r|$/g;
      end.lastIndex = at;
      const { index, 0: sign } = end.exec(text);
      if (index - at >= LONGEST_LINE) {
        throw new Refusal(`${name}: line ${number} has more than ${LONGEST_LINE.toLocaleString("en-US")} characters; is it a table?`);
      }
      const line = text.slice(at, index);
      if (line.trim()) {
        if (from < 0) from = at;
        lines.push(line);
      }
      at = index + Math.max(sign.length, 1);
    }
    if (!lines.length) throw new Refusal(`${name}: the file is empty.`);
    return { lines, from, whole: at >= text.length };
  }

  /* The separator that cuts all first rows into the same number of cells, the more the better. */
  function separatorOf(lines, whole) {
    let [best, most] = [",", 1];
    for (const candidate of Object.keys(SEPARATORS)) {
      let counts = countsOf(scan(lines.join("\n"), candidate).ends);
      if (!whole && counts.length > 2) counts = counts.slice(0, -1); // a text with line breaks may go on below
      if (new Set(counts).size === 1 && counts[0] > most) [best, most] = [candidate, counts[0]];
    }
    return best;
  }

  /* A comma if numbers are written with it; between commas only if none is written with a point. */
  function decimalOf(cells, separator) {
    if (!cells.some(cell => COMMA_NUMBER.test(cell))) return ".";
    return separator === "," && cells.some(cell => POINT_NUMBER.test(cell)) ? "." : ",";
  }

  /* A table: the names of its columns, its number of rows, its dialect, and `cell(row, column)` with both from 0. */
  function read(text, name) {
    const { lines, from, whole } = firstLines(text, name);
    const separator = separatorOf(lines, whole);
    const sample = scan(lines.join("\n"), separator);
    const cells = Array.from({ length: sample.ends.at(-1) }, (_, cell) => cellOf(lines.join("\n"), sample.places, cell));
    const { places, ends, unclosed } = scan(text, separator, from);
    const names = cells.slice(0, sample.ends[0]).map(cell => cell.trim());
    const width = names.length;
    const decimal = decimalOf(cells.slice(width), separator);
    if (unclosed) throw new Refusal(`${name}: a quotation mark is opened and never closed.`);
    if (width < 2) {
      throw new Refusal(`${name}: has a single column, '${names[0]}'; a column of labels and one per class are needed. `
        + "Cells are separated by commas, semicolons, tabs or bars.");
    }
    if (names.every(one => NUMBER.test(one)) && names.some(one => !/^-?\d+$/.test(one))) {
      throw new Refusal(`${name}: its first line holds numbers alone (${names.slice(0, 5).join(", ")}); it must name the columns.`);
    }
    const twice = names.find((one, i) => names.indexOf(one) < i);
    if (twice !== undefined) throw new Refusal(`${name}: the column '${twice}' stands twice in the header.`);
    if (ends.length < 2) throw new Refusal(`${name}: there is no row below the header.`);
    const ragged = ends.findIndex((end, row) => end !== (row + 1) * width);
    if (ragged >= 0) {
      throw new Refusal(`${name}: row ${ragged} has ${ends[ragged] - ragged * width} cells, expected ${width}, as the header has.`);
    }
    return {
      name, names, decimal, rows: ends.length - 1,
      note: `separator ${SEPARATORS[separator]}, decimal ${decimal === "." ? "point" : "comma"} (recognised)`,
      cell: (row, column) => cellOf(text, places, (row + 1) * width + column),
    };
  }

  /* A cell as JavaScript reads numbers. */
  const plainNumber = (cell, decimal) => (decimal === "," ? cell.trim().replace(",", ".") : cell.trim());

  const isNumber = (cell, decimal) => NUMBER.test(plainNumber(cell, decimal));

  /* The numbers of a column into every `step`-th entry of an array, from `first` on. */
  function fillNumbers(table, column, into, first, step) {
    const name = table.names[column];
    for (let row = 0; row < table.rows; row++) {
      const cell = table.cell(row, column);
      const written = plainNumber(cell, table.decimal);
      if (table.decimal === "," && cell.includes(".")) {
        throw new Refusal(`${table.name}: column '${name}': row ${row + 1} has '${cell.trim()}', with a point, where the `
          + "decimal sign is a comma. Write all numbers in one way, without separators of thousands.");
      } else if (!NUMBER.test(written)) {
        if (!NOT_FINITE.test(written)) throw new Refusal(noNumber(table, name, row + 1, cell.trim()));
        into[first + row * step] = written.startsWith("-") ? -Infinity : /^n/i.test(written) ? NaN : Infinity;
      } else into[first + row * step] = Number(written);
    }
  }

  function noNumber(table, name, row, cell) {
    if (!cell) return `${table.name}: column '${name}': row ${row} is empty; every row needs a number there.`;
    const hint = cell.endsWith("%") ? "Write the numbers without the sign, and say below that they are percent."
      : "Check the separator and the decimal sign, or choose other columns below.";
    return `${table.name}: column '${name}': row ${row} has '${cell}', which is no number. ${hint}`;
  }

  return Object.freeze({ LARGEST_FILE, checkSize, textOf, read, isNumber, fillNumbers });
})();
