"""``cue launch``: reads a launch file's recipe and runs its graph."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from cue.arguments import split_assignments, table_of
from cue.graph import Recipe
from cue.resources import launch_file
from cue_core.errors import CueError, FileFormatError

_WRITE = partial(print, flush=True)  # what is started writes to the same file


def read_recipe(path: Path) -> Recipe:
    """Return the recipe of a launch file: its module's ``GRAPH``.

    Raises:
        FileFormatError: it is not Python, fails, or has no recipe.
    """
    try:
        module = runpy.run_path(str(path))
    except CueError:
        raise
    except Exception as error:  # whatever a user's file does
        raise FileFormatError(path, f"cannot be read: {type(error).__name__}: {error}") from None
    recipe = module.get("GRAPH")
    if not isinstance(recipe, Recipe):
        raise FileFormatError(path, "has no GRAPH, which names a recipe of cue.graph; ros2 launch may run it")
    return recipe


def launch(
    file: str,
    words: Sequence[str],
    show_args: bool = False,
    dry_run: bool = False,
    write: Callable[[str], object] = _WRITE,
) -> int:
    """Run a launch file with the embedded runner and return the exit code.

    Raises:
        CueError: file, arguments, installation or run folder are wrong; one line says how.
    """
    recipe = read_recipe(launch_file(file))
    if show_args:
        write(f"{recipe.description}\n\nArguments (pass arguments as '<name>:=<value>'):\n")
        table_of(recipe.arguments, write)
        return 0
    graph = recipe.graph(split_assignments(words))
    from cue.runner import Runner, describe

    if dry_run:
        write(describe(graph))
        return 0
    if graph.run_dir:
        write(f"run folder: {graph.run_dir}")
    return Runner(graph).run()
