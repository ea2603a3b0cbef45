"""What the records of a session say: replayed shots, their scores, and what a judgement rests on."""

from __future__ import annotations

import math
from collections.abc import Callable

from cue_agent.budgets import plan
from cue_agent.config import AgentConfig
from cue_agent.journal import EXPLORE, HELD_OUT, SessionState
from cue_agent.judgement import Facts
from cue_agent.peers import NOMINAL, Peers, Prediction, SessionEndedError, StrikeStatus
from cue_agent.scores import place_stddev, replay, score
from cue_agent.summary import Judged
from cue_core.errors import CueError
from cue_core.shots import ShotRecord
from cue_identify.scoring import ShotScore


class Evidence:
    """Records by shot id, and what the twin says of them, asked once for each revision."""

    def __init__(self, peers: Peers, config: AgentConfig, log: Callable[[str], None]) -> None:
        """Begin without records."""
        self._peers, self._config, self._log = peers, config, log
        self._records: dict[str, ShotRecord] = {}
        self._replays: dict[tuple[str, int], Prediction] = {}

    def add(self, shot_id: str, record: ShotRecord) -> None:
        """Take in the record of a shot."""
        self._records[shot_id] = record

    def record(self, shot_id: str) -> ShotRecord | None:
        """Return the record of a shot, None where there is none."""
        return self._records.get(shot_id)

    def remember(self, state: SessionState) -> None:
        """Fetch the records of the shots that were observed before a restart."""
        for attempt in state.attempts:
            if attempt.status is StrikeStatus.OBSERVED:
                record = self._peers.record(attempt.shot.shot_id)
                if record is not None:
                    self.add(attempt.shot.shot_id, record)

    def replay(self, shot_id: str, revision: int) -> Prediction | None:
        """Return what a revision predicts for a recorded shot, None when it cannot be said."""
        record = self._records.get(shot_id)
        if record is None or record.achieved is None:
            return None
        key = (shot_id, revision)
        if key not in self._replays:
            try:
                self._replays[key] = replay(self._peers, record, revision)
            except SessionEndedError:
                raise
            except CueError as error:  # the twin failed, or the measured stroke is none that a cue can make
                self._log(f"shot {shot_id} cannot be replayed with revision {revision}: {error}")
                return None
        return self._replays[key]

    def score(self, shot_id: str, revision: int) -> ShotScore | None:
        """Return the errors of a revision on a recorded shot, None when they cannot be said."""
        prediction = self.replay(shot_id, revision)
        return None if prediction is None else score(self._records[shot_id], prediction)

    def rest_error(self, shot_id: str, revision: int) -> float:
        """Return the rest error of a revision on a recorded shot [m], NaN when it cannot be said."""
        found = self.score(shot_id, revision)
        return math.nan if found is None else found.rest_error

    def facts(self, state: SessionState) -> Facts:
        """Gather what a judgement rests on beside the journal."""
        current, before = state.in_use[-1], state.in_use[-2] if len(state.in_use) > 1 else NOMINAL
        seen_at = self._place_stddev(state)
        rounds = [f for f in state.fits if f.promoted]
        newest = next((f for f in reversed(rounds) if f.revision == current), None)
        if newest is None:  # unfitted, or rolled back
            return Facts(plan(state, self._config), place_stddev=seen_at)
        fitted = {i: self.rest_error(i, current) for i in newest.shot_ids}
        seen = {i for f in rounds for i in f.shot_ids if f.revision <= current}
        fresh = [i for i in state.usable_ids(EXPLORE) if i not in seen] if before != NOMINAL else []
        rivals = {i: (self.rest_error(i, current), self.rest_error(i, before)) for i in fresh}
        return Facts(plan(state, self._config), fitted, rivals, seen_at)

    def _place_stddev(self, state: SessionState) -> float:
        newest = next((a.shot.shot_id for a in reversed(state.attempts) if a.usable), "")
        return place_stddev(self._records[newest]) if newest in self._records else math.nan

    def judged(self, state: SessionState) -> Judged:
        """Score the held-out shots with the unfitted twin, with the final one, and with those between."""
        pairs = [(self.score(i, NOMINAL), self.score(i, state.revision)) for i in state.usable_ids(HELD_OUT)]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        between: dict[int, list[ShotScore]] = {}
        for revision in [f.revision for f in state.fits if f.promoted]:
            scores = [self.score(a.shot_id, revision) for a, _ in both]
            if both and all(s is not None for s in scores):
                between[revision] = [s for s in scores if s is not None]
        return Judged([a for a, _ in both], [b for _, b in both], between)
