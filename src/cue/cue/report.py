"""The report of a run: one self-contained HTML page."""

from __future__ import annotations

import base64
import importlib.metadata
import math
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from cue.report_data import RunData, finite, read_run
from cue.report_learning import Lesson, decision_rows, learnt
from cue_core.errors import FileFormatError
from cue_core.files import write_atomically
from cue_core.parameters import PARAMETERS

_TEMPLATE = Path(__file__).resolve().parent / "templates" / "report.html.j2"
_PACKAGES = ("mujoco", "numpy", "scipy", "cma", "opencv-python-headless", "mink")


def write_report(run_dir: Path | str) -> Path:
    """Write ``report.html`` into a run folder and return its path.

    Raises:
        FileFormatError: the run lacks a file, a file is malformed, or the report cannot be written.
    """
    run = read_run(run_dir)
    target = run.folder / "report.html"
    write_atomically(target, _render(run))
    return target


def write_overview(run_dir: Path | str, target: Path | str) -> None:
    """Write a picture of a run for a page or a talk: the camera's view beside a held-out shot.

    Raises:
        FileFormatError: the run lacks a file or has no held-out shot, or the picture cannot be written.
    """
    from cue.report_figures import overview_picture

    run = read_run(run_dir)
    camera = run.folder / "table.png"
    if not run.held_out or not camera.exists():
        raise FileFormatError(run.folder, "has no held-out shot or no table.png to make a picture of")
    try:
        overview_picture(run.table, run.held_out, camera, Path(target))
    except OSError as error:
        raise FileFormatError(target, f"cannot be written: {error.strerror}") from None


def _render(run: RunData) -> str:
    import jinja2

    from cue.report_figures import error_figure, held_out_figure, parameter_figure
    from cue.report_learning_figures import coverage_figure, learning_figure
    from cue.report_reach import reach_figure

    lessons = learnt(run.decisions, run.shots)
    stated = lessons is not None and any(p.attempt.residual is not None for p in lessons.played)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    final = run.estimates[-1]
    return template.render(
        summary=run.summary,
        table=run.table,
        picture=_embedded_picture(run.folder / "table.png"),
        figures={
            "held_out": held_out_figure(run.table, run.held_out) if run.held_out else "",
            "errors": error_figure(run.curve) if len(run.curve) > 1 else "",
            "parameters": parameter_figure(final) if not final.frozen.all() else "",
            "learning": learning_figure(run.table, lessons) if stated and lessons is not None else "",
            "reach": reach_figure(run.table, run.folder),
            "coverage": coverage_figure(run.table, lessons) if stated and lessons is not None else "",
        },
        headline=_headline(run),
        parameters=_parameter_rows(run),
        decisions=decision_rows(run.decisions),
        lessons=[_lesson_row(lesson) for lesson in lessons.lessons if lesson.shots > 0] if lessons is not None else [],
        coverage=lessons.told_coverage() if lessons is not None else [],
        shots=_shot_rows(run, lessons.uses if lessons is not None else {}),
        truth_error=_truth_error(run),
        portable=_portable_rows(run),
        portable_fitted=bool(run.portable.get("fitted")),
        environment=_environment(),
    )


def _headline(run: RunData) -> list[dict[str, str]]:
    held_out = run.summary.get("held_out", {})
    rows = []
    for key, name in (("rest_error_m", "rest position"), ("along_track_error_m", "along track")):
        before, after = (finite(held_out.get(which, {}).get(key)) for which in ("unfitted", "calibrated"))
        change = f"{100 * (after / before - 1):+.0f} %" if before > 0 and not math.isnan(after) else ""
        rows.append({"name": name, "unfitted": _cm(before), "calibrated": _cm(after), "change": change})
    return rows


def _cm(metres: float) -> str:
    return "–" if math.isnan(metres) else f"{100 * metres:.2f} cm"


def _embedded_picture(path: Path) -> str:
    try:
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return ""


def _parameter_rows(run: RunData) -> list[dict[str, str]]:
    estimate = run.estimates[-1]
    rows = []
    for i, parameter in enumerate(PARAMETERS.values()):
        if parameter.name not in estimate.listed:
            continue
        kept = "kept at its nominal value" if estimate.values[i] == parameter.nominal else "kept, not fitted"
        rows.append(
            {
                "name": parameter.name.replace("_", " "),
                "description": parameter.description,
                "unit": "" if parameter.unit == "1" else parameter.unit,
                "nominal": f"{parameter.nominal:.4g}",
                "value": f"{estimate.values[i]:.4g}",
                "stddev": "" if estimate.frozen[i] else f"± {estimate.stddevs[i]:.2g}",
                "range": f"{parameter.minimum:g} … {parameter.maximum:g}",
                "note": run.verdicts.get(parameter.name, kept),
            }
        )
    return rows


def _shot_rows(run: RunData, uses: Mapping[str, str]) -> list[dict[str, str]]:
    held_out = {shot.record.shot_id for shot in run.held_out}
    rows = []
    for record in run.shots:
        stroke = record.achieved
        usual = "held out" if record.shot_id in held_out else "fitted" if record.usable else "not used"
        rows.append(
            {
                "number": str(record.index + 1),
                "speed": "–" if stroke is None else f"{stroke.tip_speed:.3f} m/s",
                "azimuth": "–" if stroke is None else f"{math.degrees(stroke.azimuth):.2f}°",
                "moved": ", ".join(str(i) for i in record.moved_ball_ids()) or "none",
                "pocketed": ", ".join(str(t.ball_id) for t in record.tracks if t.pocketed),
                "use": uses.get(record.shot_id, usual),
                "flags": ", ".join(record.flags),
            }
        )
    return rows


def _portable_rows(run: RunData) -> list[dict[str, str]]:
    """Return how far the portable copy is from the twin, by contacts of a shot."""
    return [
        {
            "contacts": name.replace("-", "–"),
            "median": _cm(row["median_mm"] / 1000),
            "p90": _cm(row["p90_mm"] / 1000),
            "shots": str(int(row["shots"])),
        }
        for name, row in run.portable.get("difference", {}).items()
    ]


def _lesson_row(lesson: Lesson) -> dict[str, str]:
    def number(value: float, digits: int) -> str:
        return "–" if math.isnan(value) else f"{value:.{digits}f}"

    return {
        "trait": lesson.trait,
        "shots": number(lesson.shots, 1),
        "gain": number(lesson.gain, 2),
        "level": number(lesson.level, 1),
        "level_after": number(lesson.level_after, 1),
        "error": _cm(lesson.error),
        "error_after": _cm(lesson.error_after),
    }


def _truth_error(run: RunData) -> str:
    """Return the tracker's own error where a simulated world tells the truth: median of rest positions, in mm."""
    observed = {r.shot_id: {b.ball_id: b.position for b in r.after if b.in_play} for r in run.shots}
    errors = []
    for line in run.truth:
        for ball in line.get("after", []):
            seen = observed.get(str(line.get("shot_id")), {}).get(ball.get("id"))
            if seen is not None and not ball.get("pocketed"):
                errors.append(math.hypot(seen[0] - ball["position"][0], seen[1] - ball["position"][1]))
    return f"{1000 * sorted(errors)[len(errors) // 2]:.2f} mm" if errors else ""


def _environment() -> dict[str, str]:
    found = {"Python": sys.version.split()[0], "system": platform.platform(), "cores": str(os.cpu_count())}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
