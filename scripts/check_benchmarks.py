"""Check that the tables of docs/benchmarks.md are those of the committed results; ``--write`` makes them so.

A table stands between ``<!-- results: NAME -->`` and ``<!-- end of results -->`` and is made of
``benchmarks/results/NAME.json``.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.harness.output import markdown  # noqa: E402  # the checkout is no installed package
from benchmarks.harness.run import read_results  # noqa: E402
from cue_core.errors import CueError  # noqa: E402

PAGE = ROOT / "docs" / "benchmarks.md"
PLACE = re.compile(r"(?<=<!-- results: )(?P<name>\w+) -->\n.*?(?=<!-- end of results -->)", re.DOTALL)


def rendered(name: str) -> str:
    """Return a benchmark's results as Markdown.

    Raises:
        FileFormatError: they are missing.
    """
    data = read_results(ROOT / "benchmarks" / "results" / f"{name}.json")
    where = data["environment"]
    versions = ", ".join(f"{package} {version}" for package, version in where["versions"].items())
    quick = "A quick run with small counts. " if data["settings"]["quick"] else ""
    return (
        f"{name} -->\n\n{quick}Measured {where['finished'][:10]} at commit {where['commit']} on {where['cpu']}, "
        f"{where['cores']} cores (load {where['load_at_start']} at the start), Python {where['python']}, {versions}; "
        f"seed {data['settings']['seed']}.\n\n{markdown(data['rows'])}\n"
    )


def main() -> int:
    """Check or write; return 1 if the page is not what the results make it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the committed results into the page")
    text = PAGE.read_text(encoding="utf-8")
    try:
        wanted = PLACE.sub(lambda match: rendered(match["name"]), text)
    except CueError as error:
        print(error, file=sys.stderr)
        return 1
    if wanted == text:
        return 0
    if parser.parse_args().write:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    print(
        f"{PAGE.relative_to(ROOT)}: not what benchmarks/results holds; run: python scripts/check_benchmarks.py --write",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
