"""Check that every field of every message, service and action says its unit in its comment."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

INTERFACES = Path(__file__).resolve().parent.parent / "src" / "cue_msgs"
NUMBER = re.compile(r"^(u?int\d+|float\d+)")
CONSTANT = re.compile(r"^\w+ +[A-Z][A-Z0-9_]* *=")
UNIT = re.compile(r"\[[^\]]+\]")
FREE_TEXT_UNIT = "in unit"  # Parameter.msg: the unit is a field of the message itself


def problems(path: Path) -> Iterator[str]:
    """Yield one line for each number without a unit, and for a file that does not begin with what it is."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or not lines[0].startswith("#"):
        yield f"{path}:1: begin with a comment that says what it is"
    for number, line in enumerate(lines, start=1):
        declaration, _, comment = line.partition("#")
        declaration = declaration.strip()
        if not declaration or declaration == "---" or CONSTANT.match(declaration) or "error_code" in declaration:
            continue
        is_constant_of = f"one of {declaration.split()[-1].upper()}" in comment
        if NUMBER.match(declaration) and not (UNIT.search(comment) or FREE_TEXT_UNIT in comment or is_constant_of):
            yield f"{path}:{number}: {declaration}: give the unit in brackets, [-] for none"


def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    files = sorted(f for kind in ("msg", "srv", "action") for f in (INTERFACES / kind).glob(f"*.{kind}"))
    found = [text for file in files for text in problems(file)]
    for text in found:
        print(text, file=sys.stderr)
    if not files:
        print(f"no interfaces in {INTERFACES}", file=sys.stderr)
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
