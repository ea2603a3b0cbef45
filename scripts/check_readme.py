"""Check that what README.md and docs/*.md name is there: links, paths, make targets, commands and their flags.

``--run`` executes the shell blocks marked ``sh run`` instead, README.md's first, each in a shell of its own, as a
reader would.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
RUNNABLE = "sh run"
TOP_FOLDERS = ("src", "config", "launch", "docs", "scripts", "docker", "benchmarks", ".ci")
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, TOP_FOLDERS))})/[\w./*-]*\w")


@dataclass(frozen=True)
class Text:
    """One document, taken apart.

    Attributes:
        path: of the file.
        prose: without the fenced blocks.
        blocks: (info string, body) of each fenced block.
    """

    path: Path
    prose: str
    blocks: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, path: Path) -> Text:
        """Read a Markdown file."""
        text = path.read_text(encoding="utf-8")
        blocks = tuple((m["info"].strip(), m["body"]) for m in FENCE.finditer(text))
        return cls(path, FENCE.sub("", text), blocks)

    def commands(self) -> Iterator[list[str]]:
        """Yield the words of every shell command, in blocks and in code spans."""
        lines = [span for span in SPAN.findall(self.prose) if span.split()[0] in ("make", "cue", "ros2")]
        for info, body in self.blocks:
            if info.split()[:1] == ["sh"]:
                lines += body.replace("\\\n", " ").splitlines()
        for line in lines:
            for part in re.split(r"&&|\|\||[;|]", re.sub(r"(^|\s)#.*", "", line)):
                try:
                    words = shlex.split(part)
                except ValueError:
                    words = part.split()
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words = words[1:]
                if words:
                    yield words


def make_targets() -> set[str]:
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def launch_problems(words: list[str]) -> Iterator[str]:
    """Check a launch file's name and its arguments."""
    from cue.launch_command import read_recipe
    from cue_core.errors import CueError

    plain = [w for w in words if not w.startswith("-") and ":=" not in w and w not in ("FILE", "name:=value")]
    if not plain:
        return
    path = ROOT / "launch" / plain[0]
    if not path.is_file():
        yield f"launch file {plain[0]} is not in launch/"
        return
    known = {argument.name for argument in read_recipe(path).arguments}
    for word in words:
        name, separator, _ = word.partition(":=")
        if separator and name not in known:
            yield f"{plain[0]} has no argument {name}"
    try:
        read_recipe(path)
    except CueError as error:
        yield str(error)


def make_problems(words: list[str]) -> Iterator[str]:
    """Check make's targets, and of ``make sim`` the variables, which are launch arguments."""
    targets = [w for w in words if re.fullmatch(r"[a-z][\w-]*", w)]
    for target in targets:
        if target not in make_targets():
            yield f"the Makefile has no target {target}"
    if "sim" in targets:
        given = [w.replace("=", ":=", 1) for w in words if "=" in w and not w.startswith("ARGS")]
        yield from launch_problems(["sim_world.launch.py", *given])


def cue_problems(words: list[str]) -> Iterator[str]:
    """Check a subcommand of ``cue`` and its flags."""
    from cue.cli import _parser

    (choices,) = [a.choices for a in _parser()._actions if isinstance(a, argparse._SubParsersAction)]
    if not words or words[0].startswith("-"):
        return
    if words[0] not in choices:
        yield f"cue has no subcommand {words[0]}"
        return
    known = {option for action in choices[words[0]]._actions for option in action.option_strings}
    for word in words[1:]:
        if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known:
            yield f"cue {words[0]} has no option {word}"
    if words[0] == "launch":
        yield from launch_problems(words[1:])


def problems(text: Text) -> Iterator[str]:
    """Yield one line for each thing that a document names and that is not there."""
    everything = text.prose + "".join(body for _, body in text.blocks)
    for target in LINK.findall(text.prose):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        if not (text.path.parent / target.partition("#")[0]).exists():
            yield f"link to {target}, which is not there"
    for path in sorted(set(PATH.findall(everything))):
        if not list(ROOT.glob(path)):
            yield f"path {path}, which is not there"
    for words in text.commands():
        program, rest = words[0], words[1:]
        if program == "make":
            yield from make_problems(rest)
        elif program == "cue":
            yield from cue_problems(rest)
        elif program == "ros2" and rest[:2] == ["launch", "cue"]:
            yield from launch_problems(rest[2:])


def check() -> int:
    """Print what is wrong with the documents; return 1 if anything is."""
    found = 0
    for path in documents():
        if not path.is_file():
            print(f"{path.relative_to(ROOT)}: missing", file=sys.stderr)
            found += 1
            continue
        for problem in problems(Text.read(path)):
            print(f"{path.relative_to(ROOT)}: {problem}", file=sys.stderr)
            found += 1
    return 1 if found else 0


def documents() -> list[Path]:
    """Return the documents in the order in which a reader meets them."""
    return [README, *sorted((ROOT / "docs").glob("*.md"))]


def run() -> int:
    """Run the documents' runnable blocks; return the exit code of the first that fails."""
    blocks = [(path, body) for path in documents() for info, body in Text.read(path).blocks if info == RUNNABLE]
    if not any(path == README for path, _ in blocks):
        print(f"README.md has no block marked '{RUNNABLE}'", file=sys.stderr)
        return 1
    for path, body in blocks:
        name = path.relative_to(ROOT)
        print(f"--- {name}\n$ {body.rstrip()}", flush=True)
        code = subprocess.run(["bash", "-euo", "pipefail", "-c", body], cwd=ROOT, check=False).returncode
        if code:
            print(f"{name}: this block ended with exit code {code}:\n{body}", file=sys.stderr)
            return code
    return 0


def main() -> int:
    """Check, or run, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true", help="execute the blocks marked 'sh run'")
    return run() if parser.parse_args().run else check()


if __name__ == "__main__":
    sys.exit(main())
