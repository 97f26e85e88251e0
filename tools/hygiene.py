"""File hygiene, run by ``make check``: content that tracked files must not have."""

import re
import subprocess
import sys
from pathlib import Path

MAX_FILE_SIZE = 1024  # KiB
LOCK_FILES = {"uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock", "package-lock.json"}
FORBIDDEN = {
    "a URL in the pins": (re.compile(r"://"), "constraints.txt"),
    "an index option": (re.compile(r"--(extra-)?index" + "-url"), None),
    "a registry address": (re.compile(r"https?://[^\s\"']*/" + "simple"), None),
    "a home directory": (re.compile(r"/(root|home|Users)/" + r"[\w.]+"), None),
}


def faults(path: Path, content: bytes) -> list[str]:
    """Problems of one file."""
    problems = []
    if path.name in LOCK_FILES:
        problems.append("a lock file; it records hosts")
    if len(content) > MAX_FILE_SIZE * 1024:
        problems.append(f"{len(content) // 1024} KiB, more than {MAX_FILE_SIZE}")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return problems
    lines = text.split("\n")
    if text and not text.endswith("\n"):
        problems.append("no newline at the end")
    if "\r" in text:
        problems.append("carriage returns")
    problems += [f"line {i}: trailing space" for i, line in enumerate(lines, 1) if line != line.rstrip()]
    for name, (pattern, only) in FORBIDDEN.items():
        if only is None or path.name == only:
            problems += [f"line {i}: {name}" for i, line in enumerate(lines, 1) if pattern.search(line)]
    return problems


def main() -> int:
    """Check every file that git tracks or would add; exit code 1 if there are problems."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    count = 0
    for name in names:
        path = Path(name)
        if path.is_file():
            for fault in faults(path, path.read_bytes()):
                print(f"{name}: {fault}")
                count += 1
    print(f"file hygiene: {len(names)} files, {count} problems")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
