"""Fits without ROS.

>>> outcome = fit("runs/20260101-120000/shots.jsonl", "config/tables/small.yaml")
>>> outcome.estimate.values, outcome.reason
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cue_core.errors import CueError, FileFormatError, UnknownNameError
from cue_core.parameters import PARAMETERS, ParameterEstimate, default_fitted
from cue_core.shot_log import LogContents, ShotLog
from cue_core.shots import ShotRecord
from cue_core.table import TableModel
from cue_core.terms import TERMS
from cue_identify.errors import FitCode, FitError
from cue_identify.fit import FitConfig, FitOutcome, FitRequest, Fitter
from cue_identify.observations import why_unusable
from cue_identify.replay import Budget, Progress, Replayer, TwinSimulator
from cue_identify.scoring import ShotScore
from cue_identify.segments import with_strokes
from cue_identify.selection import AUTO

USUAL = "usual"
"""Among names of terms: what is fitted unless asked otherwise."""

_GZIP = b"\x1f\x8b"
_NAMED = 6  # shots that a summary names one by one


def ball_ids_of(records: Sequence[ShotRecord]) -> tuple[int, ...]:
    """Return the ids of all balls that were ever in play, in order; the cue ball is always among them."""
    return tuple(sorted({0} | {ball.ball_id for record in records for ball in record.before if ball.in_play}))


def read_shots(path: Path | str, skip_bad: bool = False) -> LogContents:
    """Read a shot log that must be there and hold shots.

    Args:
        path: of the file.
        skip_bad: leave lines out that are no records, and tell them in ``problems``.

    Raises:
        FileFormatError: no such file, no shot in it, or a line that is no record.
    """
    if not Path(path).is_file():
        raise FileFormatError(path, "is a folder, needs a shot log" if Path(path).is_dir() else "no such file")
    contents = ShotLog(path).scan()
    if contents.problems and not contents.records and "is not JSON" in str(contents.problems[0]):
        packed = "; it is packed with gzip" if Path(path).read_bytes()[:2] == _GZIP else ""
        raise FileFormatError(path, f"is no shot log: line 1 is not JSON{packed}")
    if contents.problems and (not skip_bad or not contents.records):
        more = len(contents.problems) - 1
        others = f" ({more} more line{'s' if more > 1 else ''} like it or worse)" if more else ""
        raise FileFormatError(*_parts(contents.problems[0], others))
    if not contents.records:
        raise FileFormatError(path, "holds no shot" + (", only a torn line" if contents.torn else ""))
    return contents


def _parts(error: FileFormatError, more: str) -> tuple[str, str]:
    where, _, problem = str(error).partition(": ")
    return where, problem + more


def choose_held_out(records: Sequence[ShotRecord], wanted: str, seed: int = 0) -> tuple[str, ...]:
    """Return the ids of the shots that shall only judge.

    Args:
        records: all there are, oldest first.
        wanted: ids divided by commas, ``newest:N``, ``random:N``, or empty = none named.
        seed: of the random ones.

    Raises:
        UnknownNameError: no such shot; lists those there are.
        CueError: malformed, or fewer shots than asked for.
    """
    if not wanted.strip():
        return ()
    ids = [record.shot_id for record in records if record.shot_id]
    if chosen := re.fullmatch(r"(newest|random):(\d+)", wanted.strip()):
        balls, count = ball_ids_of(records), int(chosen[2])
        usable = [r.shot_id for r in with_strokes(records)[0] if r.shot_id and not why_unusable(r, balls)]
        if not 1 <= count < len(usable):
            raise CueError(
                f"{count} shots cannot be held out of {len(usable)} usable ones; allowed is 1 to fewer than all"
            )
        if chosen[1] == "newest":
            return tuple(usable[-count:])
        places = np.random.default_rng([seed, 0x401D]).choice(len(usable), count, replace=False)
        return tuple(usable[i] for i in sorted(places))
    named = tuple(dict.fromkeys(word.strip() for word in wanted.split(",") if word.strip()))
    for name in named:
        if name not in ids:
            raise UnknownNameError("shot", name, ids)
    return named


def told_exclusions(excluded: Mapping[str, str]) -> list[str]:
    """Return one line for each reason why shots took no part, the most frequent one first."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for shot, reason in excluded.items():
        by_reason[reason].append(shot)
    lines = []
    for reason, shots in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        more = f" and {len(shots) - _NAMED} more" if len(shots) > _NAMED else ""
        lines.append(f"{reason}: {', '.join(shots[:_NAMED])}{more}")
    return lines


def refuse_other_table(records: Sequence[ShotRecord], table: TableModel, where: object) -> None:
    """Refuse shots that were not played on a table: one of their balls lies beyond its cushions.

    Raises:
        FileFormatError: naming shot, ball and table.
    """
    half = np.array([table.length, table.width]) / 2 + table.ball_radius
    for record in records:
        for ball in record.before:
            if ball.in_play and (np.abs(ball.position) > half).any():
                x, y = ball.position
                ball_told = f"ball {ball.ball_id} of shot {record.shot_id or record.index} lies at ({x:.2f}, {y:.2f}) m"
                table_told = f"table {table.name!r} of {table.length:g} x {table.width:g} m"
                raise FileFormatError(where, f"{ball_told}, beyond {table_told}: is it another table?")


def told_verdicts(estimate: ParameterEstimate, sentences: Sequence[str] = ()) -> dict[str, str]:
    """Return what can be said of each fitted parameter, by name.

    Args:
        estimate: of the parameters.
        sentences: ``FitOutcome.verdicts`` of this estimate; without them its flags speak.
    """
    fitted = [i for i, frozen in enumerate(estimate.frozen) if not frozen]
    names = list(PARAMETERS)
    if len(sentences) == len(fitted):
        return {names[i]: _shorter(sentence, names[i]) for i, sentence in zip(fitted, sentences, strict=True)}
    return {names[i]: _plain_verdict(bool(estimate.identifiable[i]), bool(estimate.at_bound[i])) for i in fitted}


def _shorter(sentence: str, name: str) -> str:
    """Return a verdict without name, value and error bar, which stand beside it."""
    return re.sub(r": \S+ \+- [^\s,;]+( [a-z][^\s,;]*)?(?=$|[,;])", "", sentence.removeprefix(f"{name} "))


def _plain_verdict(identifiable: bool, at_bound: bool) -> str:
    return ("identified" if identifiable else "not identifiable from these shots") + (", at its bound" * at_bound)


def refuse_unusable(records: Sequence[ShotRecord], where: object) -> None:
    """Refuse a log of which no shot can be fitted, with the reasons.

    Raises:
        FitError: NO_INFORMATION where nothing moved in any, else NO_SHOTS.
    """
    balls = ball_ids_of(records)
    reasons = {r.shot_id or f"record {r.index}": why_unusable(r, balls) for r in with_strokes(records)[0]}
    if not all(reasons.values()):
        return
    still = all("no_motion" in reason or reason == "nothing moved" for reason in reasons.values())
    advice = ""
    if any(reason == "no measured stroke" for reason in reasons.values()):
        advice = "; a fit starts every replay from the stroke as it was measured ('achieved' in the log)"
    told = "; ".join(told_exclusions(reasons))
    raise FitError(
        FitCode.NO_INFORMATION if still else FitCode.NO_SHOTS,
        f"{where}: none of {len(records)} shots can be fitted ({told}){advice}",
    )


def check_evaluations(count: int) -> None:
    """Refuse a budget of simulated shots that no fit can do with; 0 = the default.

    Raises:
        OutOfRangeError: saying what is allowed.
    """
    if count:
        FitConfig(evaluations=count)


def names_of_terms(terms: Sequence[str], ball_ids: Sequence[int], table: TableModel) -> tuple[str, ...]:
    """Return the names of all parameters of some terms that act on a table.

    Args:
        terms: names; ``usual`` = the parameters that are fitted unless asked otherwise.
        ball_ids: balls there.
        table: for its cushions.

    Raises:
        UnknownNameError: no such term; lists those there are.
    """
    known = {term.name: term.acting(ball_ids, len(table.cushions)) for term in TERMS}
    known[USUAL] = default_fitted()
    for name in terms:
        if name not in known:
            raise UnknownNameError("term", name, [AUTO, *known])
    wanted = {parameter for name in terms for parameter in known[name]}
    return tuple(name for name in PARAMETERS if name in wanted)


def fit_request(
    fields: FitRequest, terms: Sequence[str], records: Sequence[ShotRecord], table: TableModel
) -> FitRequest:
    """Return a request that asks for the parameters of some terms, beside those it names already.

    Args:
        fields: the request but for its terms.
        terms: names, ``usual``, or ``auto`` alone = held-out evidence chooses; empty = the request as it is.
        records: tell which balls there are.
        table: that the balls lie on.

    Raises:
        UnknownNameError: no such term; lists those there are.
        CueError: ``auto`` beside others.
    """
    if not terms:
        return fields
    if AUTO in terms:
        if len(set(terms)) > 1 or fields.parameters:
            raise CueError(f"term '{AUTO}' chooses by itself: give it alone")
        return replace(fields, terms=(AUTO,))
    names = names_of_terms(terms, ball_ids_of(records), table)
    return replace(fields, parameters=tuple(dict.fromkeys((*fields.parameters, *names))))


def fit(
    shots: Path | str | Sequence[ShotRecord],
    table: TableModel | Path | str,
    held_out: Sequence[str] = (),
    parameters: Sequence[str] = (),
    evaluations: int = 0,
    seed: int = 0,
    threads: int = 0,
    present: ParameterEstimate | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
    terms: Sequence[str] = (),
    start: np.ndarray | None = None,
    learn: bool = False,
) -> FitOutcome:
    """Fit a shot log.

    Args:
        shots: ``shots.jsonl``, or records, oldest first.
        table: model or preset file.
        held_out: shot ids that only judge; empty = the newest ones judge, then are fitted too.
        parameters: names to fit; empty = the default set.
        evaluations: budget of simulated shots; 0 = default.
        seed: of the search.
        threads: 0 = one per core; no influence on the result.
        present: estimate to start from and to beat; None = nominal.
        report: takes the progress several times a second.
        terms: names of terms whose parameters are fitted; see :func:`fit_request`.
        start: (P,) where the search starts instead of at ``present``: how far a fit had come that did not end.
        learn: afterwards learn a correction of what the parameters leave unexplained.

    Raises:
        FileFormatError: a file is missing or damaged.
        UnknownNameError: no such term; lists those there are.
        FitError: with its code.
    """
    from_file = isinstance(shots, Path | str)
    records = list(read_shots(shots).records) if isinstance(shots, Path | str) else list(shots)
    where = shots if from_file else "shots"
    model = table if isinstance(table, TableModel) else TableModel.load(table)
    refuse_other_table(records, model, where)
    refuse_unusable(records, where)
    fitter = Fitter(TwinSimulator(model, ball_ids_of(records)), FitConfig(threads=threads))
    request = FitRequest((), tuple(held_out), tuple(parameters), evaluations, seed, learn=learn)
    request = fit_request(request, terms, records, model)
    return fitter.fit(records, request, present, report=report, start=start)


def score(records: Sequence[ShotRecord], table: TableModel, values: np.ndarray) -> list[ShotScore]:
    """Return the errors of parameters ``values`` (P,) on records, predicted from the achieved strokes alone."""
    replayer = Replayer(TwinSimulator(table, ball_ids_of(records)), Budget(limit=len(records)))
    return replayer.score(records, values)
