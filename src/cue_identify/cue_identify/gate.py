"""Which shots fit and which judge, and whether a new estimate takes the place of the present one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cue_core.shot_log import data_hash
from cue_core.shots import ShotRecord
from cue_identify.errors import FitCode, FitError
from cue_identify.observations import why_unusable
from cue_identify.scoring import ShotScore

_FEWEST_TO_SPLIT = 4
_JUDGES = 0.3  # [-] share of the newest shots that judge a first fit when nobody says which
_CHANCE = 0.4  # [-] standard deviation of the logarithm of one shot's ratio of errors, of two equally good estimates
_GRAIN = 1e-3  # [m] errors below do not differ
_HOPELESS = 10.0  # [m] error of a shot on which the twin fails


@dataclass(frozen=True)
class Split:
    """Shots of one fit.

    Attributes:
        train: shots that are fitted.
        held_out: shots that only judge.
        excluded: why a shot takes no part, by shot id.
        borrowed: the judges were taken from the shots to fit, and may be fitted once they have judged.
    """

    train: tuple[ShotRecord, ...]
    held_out: tuple[ShotRecord, ...]
    excluded: dict[str, str]
    borrowed: bool


def split(
    records: Sequence[ShotRecord],
    shot_ids: Sequence[str],
    held_out_ids: Sequence[str],
    ball_ids: Iterable[int],
    used: Iterable[str] = (),
    reject: Callable[[ShotRecord], str] = lambda record: "",
) -> Split:
    """Choose the shots.

    Args:
        records: all there are, oldest first.
        shot_ids: to fit; empty = all that are usable and not held out.
        held_out_ids: that judge; empty = the newest of the shots to fit, when there are at least four.
        ball_ids: that the twin knows.
        used: shots that the present estimate was fitted to; it cannot be judged fairly by them.
        reject: says why a shot that is sound in itself neither fits nor judges; empty = nothing against it.

    Raises:
        FitError: NO_SHOTS, UNKNOWN_SHOT, INVALID_GOAL (one shot in both halves, by id or by content), or
            NO_INFORMATION (nothing moved in any of them).
    """
    if not records:
        raise FitError(FitCode.NO_SHOTS, "no shot has been recorded")
    by_id = {record.shot_id: record for record in records if record.shot_id}
    unknown = [i for i in (*shot_ids, *held_out_ids) if i not in by_id]
    if unknown:
        raise FitError(FitCode.UNKNOWN_SHOT, f"no record of shot {', '.join(unknown)}; known are {', '.join(by_id)}")
    both = sorted(set(shot_ids) & set(held_out_ids))
    if both:
        raise FitError(FitCode.INVALID_GOAL, f"shot {', '.join(both)} is to be fitted and held out")
    wanted = [by_id[i] for i in dict.fromkeys(shot_ids)] or [r for r in records if r.shot_id not in set(held_out_ids)]
    ids = tuple(ball_ids)
    excluded: dict[str, str] = {}

    def usable(candidates: Iterable[ShotRecord]) -> list[ShotRecord]:
        kept: list[ShotRecord] = []
        seen: dict[str, ShotRecord] = {}
        for record in candidates:
            reason = why_unusable(record, ids) or reject(record)
            first = seen.setdefault(_content_hash(record), record)
            if first is not record:
                reason = f"has the same data as shot {first.shot_id or first.index}"
            if reason:
                excluded[record.shot_id or f"record {record.index}"] = reason
            else:
                kept.append(record)
        return kept

    train, held_out = usable(wanted), usable(by_id[i] for i in dict.fromkeys(held_out_ids))
    if not train:
        told = "; ".join(f"{shot}: {reason}" for shot, reason in excluded.items())
        still = excluded and all("no_motion" in reason or reason == "nothing moved" for reason in excluded.values())
        raise FitError(FitCode.NO_INFORMATION if still else FitCode.NO_SHOTS, f"no shot can be fitted ({told})")
    refuse_leak(train, held_out)
    if held_out_ids or len(train) < _FEWEST_TO_SPLIT:
        return Split(tuple(train), tuple(held_out), excluded, borrowed=False)
    seen = set(used)
    fresh = [record for record in train if record.shot_id not in seen]
    # Half of the new shots judge, or else fitting the old ones again would pass.
    count = max(1, len(fresh) // 2) if seen and fresh else max(1, round(_JUDGES * len(train)))
    judges = (fresh if seen and fresh else train)[-count:]
    rest = [record for record in train if not any(record is judge for judge in judges)]
    return Split(tuple(rest), tuple(judges), excluded, borrowed=True)


def refuse_leak(train: Iterable[ShotRecord], held_out: Iterable[ShotRecord]) -> None:
    """Refuse halves that share a shot, whatever it is called: agreement could be made, not found.

    Raises:
        FitError: INVALID_GOAL, naming both shots.
    """
    fitted = {_content_hash(record): record.shot_id for record in train}
    for record in held_out:
        twin = fitted.get(_content_hash(record))
        if twin is not None:
            raise FitError(
                FitCode.INVALID_GOAL, f"held-out shot {record.shot_id} has the same data as fitted shot {twin}"
            )


def _content_hash(record: ShotRecord) -> str:
    commanded = None if record.commanded is None else replace(record.commanded, shot_id="")
    return data_hash([replace(record, shot_id="", index=0, strike_time=0.0, commanded=commanded)])


@dataclass(frozen=True)
class Verdict:
    """Whether an estimate is promoted.

    Attributes:
        promoted: it takes the place of the present one.
        reason: for people.
    """

    promoted: bool
    reason: str


def judge(new: Sequence[ShotScore], present: Sequence[ShotScore], present_name: str, judges: str) -> Verdict:
    """Compare two estimates on the same shots, by rest and along-track error.

    The errors of a shot with many contacts are ruled by chance and would rule their mean: the estimates are compared
    by the geometric mean, over shots, of the ratio of their errors. Worse within what chance does to so few shots
    counts as not worse: the new estimate rests on more of them.

    Args:
        new: scores of the new estimate.
        present: of the present one, shot by shot.
        present_name: for the reason, e.g. ``"revision 2"``.
        judges: for the reason, what kind of shots these are.
    """
    ours = np.array([(s.rest_error, s.along_track_error) for s in new])
    theirs = np.array([(s.rest_error, s.along_track_error) for s in present])
    known = ~(np.isnan(ours) | np.isnan(theirs)) if len(new) else np.zeros((0, 2), bool)
    if not known.any():
        return Verdict(False, f"not promoted: no {judges} shot moved a ball, nothing to judge by")
    if np.array_equal(ours, theirs, equal_nan=True):
        return Verdict(False, f"not promoted: on {len(new)} {judges} shots nothing differs from {present_name}")
    ours, theirs = np.minimum(ours, _HOPELESS), np.minimum(theirs, _HOPELESS)
    ratio = float(np.exp(np.mean(np.log((ours[known] + _GRAIN) / (theirs[known] + _GRAIN)))))
    allowed = float(np.exp(_CHANCE / np.sqrt(known.any(axis=1).sum())))
    rest = known[:, 0]
    figures = (
        f"{ratio:.2f} times the errors of {present_name} (mean rest error {_millimetres(ours[rest, 0])} against "
        f"{_millimetres(theirs[rest, 0])}) over {len(new)} {judges} shots, allowed up to {allowed:.2f}"
    )
    return Verdict(True, f"promoted: {figures}") if ratio <= allowed else Verdict(False, f"not promoted: {figures}")


def _millimetres(errors: np.ndarray) -> str:
    return f"{1e3 * float(np.mean(errors)):.1f} mm" if len(errors) else "unknown"
