"""Examples of README and docs: run the Python blocks and the ``orcu`` commands, and compare the output that pages show.

- A Python block is run. A ``text`` block directly below it is its output.
- A ``console`` block holds commands after ``$``. The lines below a command are its output; ``$ echo $?`` shows its exit
  code, which is 0 otherwise. Only ``orcu`` commands are run, in a folder per page.
- In the output, a line ``...`` stands for any lines and ``...`` within a line for any text. Text and integers must be
  equal; a decimal number may differ by one unit in its last digit, because processors round differently.
- ``<!-- not run: REASON -->`` above a block: it is not run, but its options are checked by ``tests/test_docs.py``.
- ``<!-- slow: REASON -->`` above a block: it is run by the tests marked ``docs`` only.

``python tests/docs_examples.py PAGE ...`` runs the pages, slow examples included, and writes the output into them.
"""

import contextlib
import difflib
import enum
import io
import os
import re
import shlex
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

from sybil.document import Document
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer, FencedCodeBlockLexer
from typer.main import get_command

ROOT = Path(__file__).parents[1]
WIDTH = 100  # characters of a line of printed output

_LEXERS = (
    FencedCodeBlockLexer(language=r".+", mapping={"language": "arguments", "source": "source"}),
    DirectiveInHTMLCommentLexer(directive=r"(invisible-)?code(-block)?", arguments=".+"),
)
_MARK = re.compile(r"<!-- (not run|slow): [^>]+ -->\s*\Z")
_DECIMAL = re.compile(r"(?:\\-)?\d+\\\.\d+")  # in an escaped text


def parse_examples(document):
    """Sybil parser: the examples of a page that are run."""
    regions = sorted((region for lexer in _LEXERS for region in lexer(document)), key=lambda region: region.start)
    for number, region in enumerate(regions):
        language = region.lexemes["arguments"].strip()
        below = regions[number + 1] if number + 1 < len(regions) else None
        if language not in ("python", "console"):
            continue
        match = _MARK.search(document.text, 0, region.start)
        mark = match[1] if match else None
        if mark == "not run":
            continue
        if language == "console" and not any(words[0] == "orcu" for words, _ in commands(region.lexemes["source"])):
            continue
        region.parsed = region.lexemes["source"]
        region.evaluator = _evaluate
        region.lexemes |= {"language": language, "slow": mark == "slow", "shown": None}
        if language == "python" and below and below.lexemes["arguments"].strip() == "text":
            region.lexemes |= _output(document, region, below)
            region.end = below.end if region.lexemes["shown"] is not None else region.end
        yield region


def _output(document, region, below):
    """The output of a Python block, if the block below it follows directly."""
    if document.text[region.end : below.start].strip():
        return {}
    source = below.lexemes["source"]
    return {"shown": source, "shown start": below.start + source.offset}


def commands(source):
    """The commands of a console block, each as a list of words and the lines of output below it, or None."""
    lines, result = source.splitlines(), []
    while lines:
        line = lines.pop(0)
        if line.startswith("$ "):
            while line.endswith("\\"):
                line = line[:-1] + lines.pop(0)
            words = shlex.split(line[2:], comments=True)
            while "&&" in words:
                position = words.index("&&")
                result.append((words[:position], None))
                words = words[position + 1 :]
            result.append((words, None))
        elif result and (line.strip() or result[-1][1]):
            result[-1] = (result[-1][0], [*(result[-1][1] or []), line])
    return [(words, "\n".join([*shown, ""]) if shown else None) for words, shown in result]


def option_problem(words, complete=True):
    """Name what is wrong with the words of an ``orcu`` command, without running it; None if nothing is."""
    command, rest = get_command(_app()), list(words[1:])
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in command.commands:
            return f"no command {name!r}"
        command = command.commands[name]
    options = {flag: parameter for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    given, values = set(), []
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            values.append(word)
            continue
        flag, equals, value = word.partition("=")
        if flag == "--help":
            return None
        if flag not in options:
            return f"no option {flag!r}"
        parameter = options[flag]
        given.add(parameter.name)
        if getattr(parameter, "is_flag", False):
            continue
        if not equals and not rest:
            return f"{flag!r} has no value" if complete else None
        value = value if equals else rest.pop(0)
        kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
        if isinstance(kind, type) and issubclass(kind, enum.Enum) and value not in [choice.value for choice in kind]:
            return f"{flag!r} has no choice {value!r}"
    if complete:
        if sum(parameter.nargs for parameter in arguments) < len(values) and all(a.nargs > 0 for a in arguments):
            return f"too many arguments: {values}"
        given |= {parameter.name for parameter, _ in zip(arguments, values, strict=False)}
        missing = [parameter.name for parameter in command.params if parameter.required and parameter.name not in given]
        if missing:
            return f"missing: {', '.join(missing)}"
    return None


def all_options():
    """The options of all commands."""
    groups, flags = [get_command(_app())], set()
    while groups:
        command = groups.pop()
        groups += getattr(command, "commands", {}).values()
        flags |= {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    return {flag for flag in flags if flag.startswith("--")} | {"--help"}


def output_problem(shown, printed):
    """Say how printed output differs from the output that a page shows; None if it does not."""
    shown, printed = _stripped(shown), _stripped(printed)
    if re.fullmatch(_pattern(shown), printed):
        return None
    numbers = [number.replace("\\", "") for number in _DECIMAL.findall(_pattern(shown))]
    match = re.fullmatch(_DECIMAL.sub(r"(-?\\d+\\.\\d+)", _pattern(shown)), printed)
    if match and all(map(_close, numbers, match.groups())):
        return None
    return f"The page shows:\n\n{shown}\n\nbut the example printed:\n\n{printed}\n"


def run_command(words):
    """Run an ``orcu`` command in this process; returns its exit code and what a terminal would show."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with (
        mock.patch.multiple(sys, argv=words, stdout=stream, stderr=stream),
        mock.patch.dict(os.environ, {"COLUMNS": str(WIDTH)}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")  # printed, as in a shell
        try:
            _main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    return code, stream.buffer.getvalue().decode()


def _app():
    from orcu.cli import app

    return app


def _main():
    from orcu.cli import main

    main()


def _stripped(text):
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).rstrip()


def _pattern(shown):
    """A regular expression of the shown output, in which ``...`` matches anything."""
    any_lines, any_text, end = r"(?:[^\n]*(?:\n|\Z))*?", r"[^\n]*", r"(?:\n|\Z)"
    return "".join(
        any_lines if line.strip() == "..." else re.escape(line).replace(r"\.\.\.", any_text) + end
        for line in shown.splitlines()
    )


def _close(shown, printed):
    digits = len(shown.partition(".")[2])
    return len(printed.partition(".")[2]) == digits and abs(float(shown) - float(printed)) < 1.5 * 10.0**-digits


def _evaluate(example):
    """Run an example, and before it those above that have not run."""
    document = example.document
    finished = document.__dict__.setdefault("finished", set())
    for other in document.examples():
        lexemes = other.region.lexemes
        if other.region.start >= example.region.start:
            break
        if (
            other.region.start not in finished
            and "slow" in lexemes
            and lexemes["slow"] <= example.region.lexemes["slow"]
        ):
            finished.add(other.region.start)
            _run(other)
    finished.add(example.region.start)
    return "\n".join(problem for problem, _, _ in _run(example) if problem) or None


def _run(example):
    """Run one example; returns problem, shown output and printed output of each part."""
    if example.region.lexemes["language"] == "console":
        return list(_run_console(example.parsed))
    printed, shown = io.StringIO(), example.region.lexemes["shown"]
    try:
        with contextlib.redirect_stdout(printed):
            PythonEvaluator()(example)
    except BaseException:
        print(printed.getvalue())  # for the report of the failure
        raise
    if shown is None:
        unseen = "The example prints output that the page does not show:\n\n" + printed.getvalue()
        return [(unseen if printed.getvalue().strip() else None, None, printed.getvalue())]
    return [(output_problem(shown, printed.getvalue()), shown, printed.getvalue())]


def _run_console(source):
    steps = commands(source)
    for number, (words, shown) in enumerate(steps):
        if words[0] != "orcu":
            continue
        code, printed = run_command(words)
        following, expected = steps[number + 1] if number + 1 < len(steps) else ([], None)
        if following != ["echo", "$?"]:
            expected = "0\n"
        problem = output_problem(shown, printed) if shown else None
        if f"{code}\n" != expected:
            problem = f"{shlex.join(words)}: exit code {code}, expected {expected}\n{printed}"
        yield problem, shown, printed


def _updated(shown, printed):
    """The shown output with the lines of the printed one; of an output with omissions the most similar lines."""
    shown, printed = _stripped(shown).splitlines(), _stripped(printed).splitlines()
    if "..." not in shown:
        return printed
    result = []
    for line in shown:
        similar = difflib.get_close_matches(line, printed, 1, cutoff=0)
        result += [line] if line == "..." or not line else similar
    return result


def write_output(page):
    """Run a page and write the output of its examples into it; returns the number of changed outputs."""
    document = Document.parse(str(page), parse_examples)
    text, changes = document.text, []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["ORCU_DATA"] = str(Path(folder) / "data")
        for example in list(document.examples()):
            start = example.region.lexemes.get("shown start", example.region.start)
            for problem, shown, printed in _run(example):
                if problem and shown is not None:
                    position = text.index(shown, start)
                    changes.append((position, position + len(shown), "\n".join([*_updated(shown, printed), ""])))
                    start = position + len(shown)
                elif problem:
                    print(f"{page}, line {example.line}: {problem}")
    for start, end, output in reversed(changes):
        text = text[:start] + output + text[end:]
    if changes:
        page.write_text(text, encoding="utf-8")
    return len(changes)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}: {write_output(Path(name).resolve())} outputs changed")
