"""File hygiene, run by ``make check``: what must not stand in a tracked file."""

import re
import subprocess
import sys
from pathlib import Path

LARGEST_FILE = 1024  # KiB
LOCK_FILES = {"uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock", "package-lock.json"}
FORBIDDEN = {
    "a URL in the pins": (re.compile(r"://"), "constraints.txt"),
    "an index option": (re.compile(r"--(extra-)?index" + "-url"), None),
    "a registry address": (re.compile(r"https?://[^\s\"']*/" + "simple"), None),
    "a home directory": (re.compile(r"/(root|home|Users)/" + r"[\w.]+"), None),
}


def faults(path: Path, content: bytes) -> list[str]:
    """What is wrong with one file."""
    complaints = []
    if path.name in LOCK_FILES:
        complaints.append("a lock file; it records hosts")
    if len(content) > LARGEST_FILE * 1024:
        complaints.append(f"{len(content) // 1024} KiB, more than {LARGEST_FILE}")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return complaints
    lines = text.split("\n")
    if text and not text.endswith("\n"):
        complaints.append("no newline at the end")
    if "\r" in text:
        complaints.append("carriage returns")
    complaints += [f"line {i}: trailing space" for i, line in enumerate(lines, 1) if line != line.rstrip()]
    for what, (pattern, only) in FORBIDDEN.items():
        if only is None or path.name == only:
            complaints += [f"line {i}: {what}" for i, line in enumerate(lines, 1) if pattern.search(line)]
    return complaints


def main() -> int:
    """Check every file that git tracks or would add; the exit code says whether all is well."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    bad = 0
    for name in names:
        path = Path(name)
        if path.is_file():
            for fault in faults(path, path.read_bytes()):
                print(f"{name}: {fault}")
                bad += 1
    print(f"file hygiene: {len(names)} files, {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
