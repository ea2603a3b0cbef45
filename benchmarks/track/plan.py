"""Which parts the benchmark of the tracker has."""

from __future__ import annotations

from typing import Any

from benchmarks.harness import Options, Part

CODE = (
    "benchmarks/track",
    "config/tables",
    "src/cue_core/cue_core",
    "src/cue_perception/cue_perception",
    "src/cue_sim/cue_sim/camera.py",
    "src/cue_sim/cue_sim/graphics.py",
    "src/cue_sim/cue_sim/lens.py",
    "src/cue_sim/cue_sim/scene.py",
    "src/cue_sim/cue_sim/scenery.py",
    "src/cue_sim/cue_sim/ball_marks.py",
)
WORLDS = 10
ACCURACY = "still_p95_m moving_median_m moving_p95_m velocity_error event_time_median_s swaps missed false coverage95"
_SIZES = {"720": (1280, 720), "1080": (1920, 1080)}
_TIMED = {"720": (3, 9), "1080": (9,)}
"""Worlds whose images are clocked: a medium one, and the one with most balls."""


def make_parts(options: Options) -> list[Part]:
    """Return the parts, those with many balls first so that two workers end together."""
    seed, quick = options.seed, options.quick
    parts: list[Part] = []

    def add(key: str, what: str, function: str, arguments: dict[str, Any], alone: bool = False, also: str = "") -> None:
        parts.append(Part(f"{key}/{what}", f"benchmarks.track.play:{function}", arguments, alone, tuple(also.split())))

    worlds = (1,) if quick else range(WORLDS)[::-1]
    for index in worlds:
        arguments = {"seed": seed, "index": index, "frames": 130 if quick else 0}
        add("still_median_m", f"world{index}", "accuracy", arguments, also=ACCURACY)
    for label, (width, height) in _SIZES.items():
        for index in (1,) if quick else _TIMED[label]:
            if quick and label == "1080":
                continue
            cut = 130 if quick else 0 if label == "720" else 150
            clocked = {"seed": seed, "index": index, "width": width, "height": height, "frames": cut}
            add(f"p95_ms_{label}", f"world{index}", "speed", clocked, alone=True)
            add("hough", f"{label}/world{index}", "hough", {**clocked, "frames": cut or 0}, alone=True)
    if not quick:
        # histories are full after 4,096 images; from then on nothing may grow
        add("memory", "world0", "memory", {"seed": seed, "index": 0, "images": 10000})
    return parts
