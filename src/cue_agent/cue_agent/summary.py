"""What a session ends with: ``summary.json`` and the lines for a person."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cue_agent.journal import ESCAPE, EXPLORE, HELD_OUT, SessionState
from cue_agent.peers import Code
from cue_core.files import write_atomically
from cue_identify.scoring import ShotScore, mean_score

NAN = float("nan")


@dataclass(frozen=True)
class SessionResult:
    """Result of a session; errors in m, NaN = not known."""

    code: Code
    message: str
    summary: str = ""
    run_directory: str = ""
    shots_used: int = 0
    revision: int = 0
    unfitted_rest_error: float = NAN
    calibrated_rest_error: float = NAN
    unfitted_along_track_error: float = NAN
    calibrated_along_track_error: float = NAN

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return {**asdict(self), "code": int(self.code)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SessionResult:
        """Read back what :meth:`to_dict` wrote."""
        return cls(**{**data, "code": Code(data["code"])})


@dataclass(frozen=True)
class Judged:
    """Scores of the held-out shots.

    Attributes:
        unfitted: of the nominal twin.
        calibrated: of the revision in use, shot by shot as ``unfitted``.
        by_revision: of every promoted revision that the twin still knows, in order.
    """

    unfitted: Sequence[ShotScore] = ()
    calibrated: Sequence[ShotScore] = ()
    by_revision: Mapping[int, Sequence[ShotScore]] = field(default_factory=dict)


def _means(scores: Sequence[ShotScore]) -> dict[str, float]:
    rest, along = mean_score(scores)
    return {"rest_error_m": rest, "along_track_error_m": along}


def build_summary(state: SessionState, judged: Judged, code: Code, reason: str) -> dict[str, Any]:
    """Return what goes into ``summary.json``."""
    shots_of_fit = {f.revision: len(f.shot_ids) for f in state.fits if f.promoted}
    per_shot = [
        {
            "shot_id": a.shot_id,
            "unfitted": {"rest_error_m": a.rest_error, "along_track_error_m": a.along_track_error},
            "calibrated": {"rest_error_m": b.rest_error, "along_track_error_m": b.along_track_error},
        }
        for a, b in zip(judged.unfitted, judged.calibrated, strict=True)
    ]
    return {
        "instruction": state.instruction,
        "error_code": int(code),
        "stopped_because": reason,
        "shots_used": len(state.used()),
        "shots_budget": state.shots,
        "exploration_shots": len(state.used(EXPLORE)),
        "escape_shots": len(state.used(ESCAPE)),
        "wall_s": round(state.last_wall - state.started, 3),
        "phases_s": state.phase_seconds(),
        "revision": state.revision,
        "seed": state.seed,
        "planner": state.planner,
        "taken_over_by_offline": state.taken_over,
        "held_out": {
            "shots": len(per_shot),
            "played": len(state.used(HELD_OUT)),
            "unfitted": _means(judged.unfitted),
            "calibrated": _means(judged.calibrated),
            "per_shot": per_shot,
            "by_revision": [
                {"revision": r, "shots_fitted": shots_of_fit.get(r, 0), **_means(s)}
                for r, s in judged.by_revision.items()
            ],
        },
        "fits": [
            {
                "shot_ids": list(f.shot_ids),
                "final": f.final,
                "promoted": f.promoted,
                "revision": f.revision,
                "error_code": f.code,
                "reason": f.message,
            }
            for f in state.fits
            if f.done
        ],
        "exploration": [
            {"shot_id": a.shot.shot_id, "revision": a.revision, "rest_error_m": a.rest_error}
            for a in state.used(EXPLORE)
        ],
    }


def summary_lines(summary: Mapping[str, Any]) -> str:
    """Return the summary for a person."""
    held_out = summary["held_out"]
    lines = [f"{summary['shots_used']} of {summary['shots_budget']} shots, ended by: {summary['stopped_because']}"]
    if held_out["shots"]:
        for name, key in (("rest position", "rest_error_m"), ("along track", "along_track_error_m")):
            before, after = held_out["unfitted"][key], held_out["calibrated"][key]
            change = "-" if before <= 0 else f"{abs(1 - after / before):.0%} {'lower' if after <= before else 'higher'}"
            lines.append(
                f"held-out error, {name}: unfitted {100 * before:.2f} cm, calibrated {100 * after:.2f} cm ({change}) "
                f"over {held_out['shots']} shots"
            )
    return "\n".join(lines)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON file atomically. NaN becomes null.

    Raises:
        FileFormatError: it cannot be written.
    """
    write_atomically(path, json.dumps(_without_nan(data), indent=2, allow_nan=False) + "\n")


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(v) for v in value]
    return None if isinstance(value, float) and value != value else value
