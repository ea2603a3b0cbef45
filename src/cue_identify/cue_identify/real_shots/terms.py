"""What of the match table is fitted, with what is believed beforehand."""

from __future__ import annotations

from dataclasses import dataclass

from cue_sim import laws


@dataclass(frozen=True)
class Term:
    """One number that is fitted.

    Attributes:
        name: a parameter of the twin, ``nose_height``, a contact line, or a cushion law's own parameter.
        unit: SI.
        start: where the fit begins.
        spread: standard deviation of what is believed beforehand, around ``start``.
        low: hard limit.
        high: hard limit.
        description: what it is.
        source: of start and spread.
    """

    name: str
    unit: str
    start: float
    spread: float
    low: float
    high: float
    description: str
    source: str


_ALCIATORE = "Alciatore, billiards.colostate.edu"
_UMB = "UMB, World Rules of Carom Billiards, chapter 2: sizes within 5 mm"
_LINE = "contact line of a ball's centre, inwards of the nominal one, at the"

TERMS: tuple[Term, ...] = (
    Term("sliding_friction", "1", 0.20, 0.03, 0.08, 0.45, "ball on cloth, sliding", _ALCIATORE),
    Term("rolling_friction", "1", 0.008, 0.003, 0.002, 0.03, "rolling deceleration / g times 7/5", _ALCIATORE),
    Term(
        "spinning_deceleration",
        "rad/s^2",
        6.0,
        3.0,
        1.0,
        40.0,
        "decay of spin about the vertical",
        f"{_ALCIATORE}: 5-15 on pool cloth, less on a match cloth that rolls twice as far",
    ),
    # What restitution and friction mean depends on the law, so little is believed of them.
    Term("cushion_restitution", "1", 0.85, 0.20, 0.4, 1.0, "of the cushion, at 1 m/s", f"Mathavan 2010; {_ALCIATORE}"),
    Term("cushion_restitution_slope", "s/m", 0.0, 0.03, -0.25, 0.1, "change of it per m/s", _ALCIATORE),
    Term("cushion_friction", "1", 0.20, 0.15, 0.0, 0.6, "ball on cushion nose", f"Mathavan 2010; {_ALCIATORE}"),
    Term("nose_height", "m", 0.0385, 0.0015, 0.0325, 0.046, "of the cushion nose", "UMB 37 mm; WPA 62.5-64.5 %"),
    Term("line_south", "m", 0.0, 0.005, -0.02, 0.02, f"{_LINE} south", _UMB),
    Term("line_east", "m", 0.0, 0.005, -0.02, 0.02, f"{_LINE} east", _UMB),
    Term("line_north", "m", 0.0, 0.005, -0.02, 0.02, f"{_LINE} north", _UMB),
    Term("line_west", "m", 0.0, 0.005, -0.02, 0.02, f"{_LINE} west", _UMB),
    Term("ball_friction", "1", 0.06, 0.02, 0.0, 0.25, "between striker and struck ball", f"{_ALCIATORE}, TP A-14"),
    Term("ball_restitution", "1", 0.93, 0.024, 0.8, 1.0, "between striker and struck ball", f"{_ALCIATORE}: 0.92-0.98"),
)
"""What is fitted whatever the cushion law."""


def terms_of(cushion_law: str) -> tuple[Term, ...]:
    """Return what is fitted with a cushion law: :data:`TERMS`, then the law's own parameters.

    A law's published numbers belong to its author's table; they are the start, with a quarter of their range as spread.

    Raises:
        UnknownNameError: no such law; lists those there are.
    """
    own = laws.find("cushion", cushion_law).parameters
    return TERMS + tuple(
        Term(p.name, p.unit, p.nominal, (p.maximum - p.minimum) / 4, p.minimum, p.maximum, p.description, p.source)
        for p in own.values()
    )
