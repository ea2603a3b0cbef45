"""Lets a model explore the table in a session, and hands over to the offline planner when nothing comes of it.

The session keeps its journal, its steps and its limits: the model acts through the same decisions, written down before
they are acted on. So a restarted session goes on with the conversation, or with the offline planner, from wherever it
was, and no shot is struck twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from cue_agent.journal import SessionState
from cue_agent.llm.config import LlmConfig
from cue_agent.llm.conversation import Conversation, Ending, Provider, Why
from cue_agent.llm.limits import Approval, Approver, Ledger, Nobody, RepeatBreaker, Usage
from cue_agent.llm.prompt import AGAIN, FIRST, SUMMARY, system_prompt
from cue_agent.llm.registry import Registry, Tool
from cue_agent.llm.skills import Skills
from cue_agent.llm.tools_fits import fit_tools
from cue_agent.llm.tools_other import other_tools
from cue_agent.llm.tools_shots import shot_tools
from cue_agent.llm.transcript import FOLDER, Transcript, without
from cue_agent.llm.workbench import Workbench
from cue_agent.llm.workspace import Workspace
from cue_agent.session import Session
from cue_core.errors import CueError
from cue_core.shot_log import append_line
from cue_core.shots import Shot

BLOCKED = "blocked.jsonl"
_MOST_BLOCKED = 2000  # characters of arguments that are kept


class _Absent:
    """Stands for a provider whose package is not there."""

    name = "none"

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def missing(self) -> str:
        return self._problem

    def secrets(self) -> tuple[str, ...]:
        return ()

    def converse(self, conversation: Conversation) -> Ending:
        return Ending(Why.KEY, self._problem)


def make_provider(config: LlmConfig, environment: Mapping[str, str]) -> Provider:
    """Return the provider of a configuration; one whose package is not there says so when it is asked."""
    try:
        from cue_agent.llm.anthropic_provider import AnthropicProvider
    except ImportError as error:
        return _Absent(f"the package of provider {config.provider} cannot be loaded: {error}")
    return AnthropicProvider(environment)


def tools_of(work: Workspace) -> list[Tool]:
    """Return all tools of a session."""
    return [*shot_tools(work), *fit_tools(work), *other_tools(work)]


class ModelPilot:
    """See the module; one serves one run folder."""

    def __init__(
        self,
        config: LlmConfig,
        provider: Provider,
        approver: Approver | None = None,
        simulated: bool = True,
        image: Callable[[], np.ndarray | None] = lambda: None,
    ) -> None:
        """Name what it works with.

        Args:
            config: limits.
            provider: of the model.
            approver: asks a person; None = nobody is there.
            simulated: no person stands at the table.
            image: returns the newest camera image (h, w, 3) BGR, None = there is none.
        """
        self._config, self._provider, self._image = config, provider, image
        mode = config.approval
        if mode == "auto":
            mode = "never" if simulated else "first"
        self._approval = Approval(mode, approver or Nobody(), config.approval_timeout)

    def wanted(self, state: SessionState) -> bool:
        """Tell whether the model has still a say in this session."""
        return not state.taken_over

    def refuses(self, session: Session, shot: Shot, text: str) -> str:
        """Return why a person does not want a stroke that the session itself chose, empty = they do not mind."""
        told = f"{shot.speed:.2f} m/s, {math.degrees(shot.azimuth):.0f} degrees; {text}"
        played = len(session.state.used())
        return self._approval.refuses(shot, told, played, session.peers.check, session.progress)

    def explore(self, session: Session) -> None:
        """Let the model explore until it is over, else hand over; a restarted session goes on where it was.

        Raises:
            SessionEndedError: the session is over.
        """
        problem = self._provider.missing()
        if problem:
            session.hand_over(problem)
            return
        work, registry = self.desk(session)
        conversation = Conversation(
            system_prompt(work, session.config),
            work.transcript,
            registry,
            work.ledger,
            self._config,
            work.over,
            session.peers.check,
            session.progress,
            session.log,
            lambda: SUMMARY.format(standing=json.dumps(work.standing()), notes=json.dumps(work.transcript.notes)),
        )
        if not conversation.transcript.lines:
            conversation.transcript.write("begin", provider=self._provider.name, model=self._config.model)
            conversation.say(FIRST)
        else:
            conversation.say(AGAIN.format(standing=json.dumps(work.standing())))
        try:
            ending = self._provider.converse(conversation)
        except CueError:
            raise
        except Exception as error:  # whatever it is, the session goes on
            text = without(self._provider.secrets(), f"{type(error).__name__}: {error}")
            work.transcript.write("trouble", text=text)
            session.hand_over(f"the agent failed: {text[:300]}")
            return
        if ending.why is not Why.OVER or not work.over():
            work.transcript.write("taken_over", why=ending.why.value, text=ending.text)
            session.hand_over(ending.text or ending.why.value)

    def desk(self, session: Session) -> tuple[Workspace, Registry]:
        """Return the tools of a session with all that stands before them; for whoever calls them."""
        config, state = self._config, session.state
        transcript = Transcript(session.run_dir, state.number, self._provider.secrets())
        bench = Workbench(config.workbench_seconds, config.workbench_memory, config.workbench_disk)
        work = Workspace(
            session,
            config,
            transcript,
            _ledger(config, transcript),
            self._approval,
            bench,
            Skills(session.run_dir, bench),
            self._image,
        )

        def refused(tool: str, arguments: object, limit: str, message: str) -> None:
            told = json.dumps(arguments, default=repr)[:_MOST_BLOCKED]
            transcript.write("refused", tool=str(tool), arguments=told, limit=limit, message=message)
            if limit:  # beyond a limit, or malformed: on record beside the conversation too
                line = {"tool": str(tool), "arguments": told, "limit": limit, "message": message}
                if session.run_dir:
                    text = without(transcript.secrets, json.dumps(line))
                    append_line(Path(session.run_dir, FOLDER, BLOCKED), json.loads(text))
                session.log(f"refused by limit {limit}: {tool}: {message}")

        registry = Registry(guards=[RepeatBreaker(config.same_calls)], refused=refused)
        registry.add(tools_of(work))
        return work, registry


def _ledger(config: LlmConfig, transcript: Transcript) -> Ledger:
    """Return what was spent before a restart."""
    ledger = Ledger(config)
    for line in transcript.lines:
        if line["event"] == "answer":
            ledger.add(Usage(**line["usage"]))
        elif line["event"] == "result":
            ledger.calls += 1
            ledger.runs += line["tool"] in ("run_python", "save_skill")
    return ledger
