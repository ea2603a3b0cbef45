"""The self-check: what the tracker says of its own eyes, all the time and without any truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera
from cue_perception.clock_offset import ClockOffset
from cue_perception.edge_watch import EdgeWatch, Hidden, thumbnail
from cue_perception.frame_watch import FrameWatch
from cue_perception.light_watch import LightWatch
from cue_perception.stamps import Verdict

CAMERA_MOVED = "camera_moved"
CAMERA_DRIFT = "camera_drift"
CAMERA_SHAKES = "camera_shakes"
VIEW_BLOCKED = "view_blocked"
BLURRED = "blurred"
LENS_DIRTY = "lens_dirty"
LIGHT_CHANGED = "light_changed"
OVEREXPOSED = "overexposed"
DARK = "dark"
FRAMES_LOST = "frames_lost"
CLOCK_OFFSET = "clock_offset"
CLOCK_DOUBTFUL = "clock_doubtful"

_BLOCKED = 0.35  # share of the noses that must look as learnt
_SHAKES = 0.8  # px from image to image
_PATIENCE = {VIEW_BLOCKED: 1.0, BLURRED: 0.5, LENS_DIRTY: 2.0, OVEREXPOSED: 0.3, DARK: 0.3, CAMERA_SHAKES: 0.3}
"""How long a state must last before it is told [s]."""
_GIVE_UP = 3.0  # s with the noses out of sight until the table is looked for anew
_GAP = 0.5  # s: what lies further apart does not add up
_STEADY = 2.5  # grey levels between two thumbnails, of the calmest four fifths
_STEADY_IMAGES = 8


@dataclass(frozen=True)
class Issue:
    """Something that a person should know.

    Attributes:
        flag: in the record of each shot meanwhile.
        text: one line.
        grave: the tracker cannot do its work.
    """

    flag: str
    text: str
    grave: bool = False


class SelfCheck:
    """Watches edges, light and stamps.

    Usage per image: :meth:`look`, then :attr:`moved` (calibrate anew), :attr:`suspect` (leave this image out) and
    :meth:`corrected` (the image to find balls in).
    """

    def __init__(self, table: TableModel, clock: ClockOffset | None = None) -> None:
        """Watch a camera over a table; ``clock`` is what the shot recorder knows of the stamps."""
        self._table = table
        self.frames = FrameWatch()
        self.clock = clock or ClockOffset()
        self.edges: EdgeWatch | None = None
        self.light: LightWatch | None = None
        self.lost_because = ""
        self._looks = 0
        self._since: dict[str, float] = {}
        self._time: float | None = None
        self._thumbnail: np.ndarray | None = None
        self._calm = 0
        self._dirty = False

    def learn(self, camera: Camera, image: np.ndarray) -> None:
        """Take the image (h, w, 3) BGR uint8 that the camera was calibrated with as how things should look."""
        self.edges = EdgeWatch(camera, self._table, image)
        self.light = LightWatch(camera, self._table, image)
        self.lost_because = ""
        self._since = {}

    def forget(self, because: str) -> None:
        """The calibration is not valid any more: wait for a steady picture."""
        self.edges = self.light = None
        self.lost_because = because
        self._since = {}
        self._thumbnail, self._calm = None, 0

    def note(self, stamp: int, verdict: Verdict) -> None:
        """Take note of every image's stamp [ns], those that are not looked at included."""
        self.frames.note(stamp, verdict)

    def look(self, image: np.ndarray, time: float, hidden: Hidden | None = None) -> None:
        """Look at an image (h, w, 3) BGR uint8 of a time [s]; ``hidden`` tells what the arm is known to hide."""
        if self.edges is None or self.light is None:
            return
        self._looks += 1
        if self.edges.works:
            self.edges.look(image, hidden, self.light.gain)
        if self._looks % 2:
            self.light.look(image, hidden, self.edges.seen_now > 0.5)
        if self._time is None or not 0 < time - self._time < _GAP:
            self._since = {}
        self._time = time
        if self._looks % 16 == 0:
            self._dirty = bool(self.edges.blurred_at)
        if self._looks % 4 == 0:
            self._judge(self.edges, self.light, time)

    def _judge(self, edges: EdgeWatch, light: LightWatch, time: float) -> None:
        states = {
            VIEW_BLOCKED: edges.seen < _BLOCKED,
            BLURRED: edges.blurred,
            LENS_DIRTY: self._dirty,
            OVEREXPOSED: light.overexposed,
            DARK: light.dark,
            CAMERA_SHAKES: edges.shake > _SHAKES,
        }
        for flag, there in states.items():
            if there:
                self._since.setdefault(flag, time)
            else:
                self._since.pop(flag, None)

    @property
    def suspect(self) -> bool:
        """Tell whether this very image looks moved: no ball may be measured in it.

        A camera that shakes without end is measured with all the same, flagged, rather than never.
        """
        return self.edges is not None and self.edges.suspect and not self._is(CAMERA_SHAKES)

    @property
    def moved(self) -> str:
        """Return why the calibration does not hold any more; empty = it holds."""
        if self.edges is None:
            return ""
        motion = self.edges.moved
        if motion is not None:
            return f"the camera was moved: the picture of the table by {motion}"
        misfit = self.edges.misfit
        if misfit is not None:
            return f"the camera was moved: the cushions are off by {misfit:.1f} px"
        if self._lasting(VIEW_BLOCKED) > _GIVE_UP and not self._is(DARK):
            return "the cushions are not where they were: the camera was moved far, or something hides the table"
        return ""

    def steady(self, image: np.ndarray) -> bool:
        """Tell whether the picture has been quiet for some images; asked while there is no calibration."""
        now = thumbnail(image)
        if self._thumbnail is not None:
            calm = float(np.quantile(np.abs(now - self._thumbnail), 0.8)) < _STEADY
            self._calm = self._calm + 1 if calm else 0
        self._thumbnail = now
        return self._calm >= _STEADY_IMAGES

    def corrected(self, image: np.ndarray) -> np.ndarray:
        """Return the image in the light of the calibration."""
        return image if self.light is None else self.light.corrected(image)

    def _lasting(self, flag: str) -> float:
        since = self._since.get(flag)
        return 0.0 if since is None or self._time is None else self._time - since

    def _is(self, flag: str) -> bool:
        return flag in self._since and self._lasting(flag) >= _PATIENCE[flag]

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Return what is wrong now, the gravest first."""
        found = []
        if self.lost_because:
            found.append(Issue(CAMERA_MOVED, f"{self.lost_because}; calibration invalid", True))
        if self.edges is not None and self.light is not None:
            found += self._of_picture(self.edges, self.light)
        share = self.frames.losing
        if share is not None:
            found.append(Issue(FRAMES_LOST, f"{share:.0%} of the images are lost or out of order"))
        offset = self.clock.notable
        if offset is not None:
            error = (self.clock.estimate or (0.0, 0.0))[1]
            side = "behind" if offset > 0 else "ahead of"
            found.append(
                Issue(
                    CLOCK_OFFSET,
                    f"the camera's stamps are {1e3 * abs(offset):.0f} +- {1e3 * error:.0f} ms {side} the arm's clock;"
                    " strike times allow for it",
                )
            )
        return tuple(found)

    def _of_picture(self, edges: EdgeWatch, light: LightWatch) -> list[Issue]:
        found = []
        if self._is(DARK):
            found.append(Issue(DARK, "the picture is dark"))
        if self._is(VIEW_BLOCKED):
            found.append(Issue(VIEW_BLOCKED, f"only {edges.seen:.0%} of the cushions look as they did: view blocked?"))
        if self._is(CAMERA_SHAKES):
            found.append(Issue(CAMERA_SHAKES, f"the camera shakes by {edges.shake:.1f} px"))
        if self._is(BLURRED):
            found.append(
                Issue(BLURRED, f"the picture is blurred, edges {edges.sharpness:.0%} as steep: focus or lens changed")
            )
        if self._is(LENS_DIRTY):
            found.append(Issue(LENS_DIRTY, f"blurred in places ({', '.join(edges.blurred_at)}): is the lens dirty?"))
        drift = edges.drift
        if drift is not None:
            found.append(Issue(CAMERA_DRIFT, f"the camera has drifted by {drift} since it was calibrated"))
        if self._is(OVEREXPOSED):
            found.append(Issue(OVEREXPOSED, "the cloth is overexposed"))
        balance, exposure = light.balance, light.exposure
        if balance is not None:
            found.append(
                Issue(
                    LIGHT_CHANGED, f"white balance changed: red x{balance[0]:.2f}, blue x{balance[1]:.2f}; allowed for"
                )
            )
        elif exposure is not None:
            found.append(Issue(LIGHT_CHANGED, f"exposure changed: x{exposure:.2f}; allowed for"))
        return found

    def values(self) -> dict[str, str]:
        """Return the figures behind the issues, for the diagnostics."""
        found = {
            "images per second by their stamps": f"{self.frames.rate:.1f}",
            "images lost": str(self.frames.lost),
            "images out of order": str(self.frames.disordered),
        }
        if self.edges is not None and self.light is not None:
            blue, green, red = self.light.gains
            found |= {
                "picture against calibration": str(self.edges.motion),
                "cushions as learnt": f"{self.edges.seen:.0%}",
                "sharpness against calibration": f"{self.edges.sharpness:.2f}",
                "light against calibration [r g b]": f"{red:.2f} {green:.2f} {blue:.2f}",
            }
        estimate = self.clock.estimate
        if estimate is not None:
            middle, error = estimate
            strikes = len(self.clock.strikes)
            found["camera behind arm [ms]"] = f"{1e3 * middle:.1f} +- {1e3 * error:.1f} ({strikes} strikes)"
        return found

    @property
    def flags(self) -> frozenset[str]:
        """Return the flags of :attr:`issues`."""
        return frozenset(issue.flag for issue in self.issues)
