"""Bringing CUE up: the graph of its processes as data, the runner, and the ``cue`` command."""
