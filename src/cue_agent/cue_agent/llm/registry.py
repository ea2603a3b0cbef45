"""The tools by which a session is run, for whoever runs it: a model through an API, another agent, a script in a test.

A call is checked here before anything happens. What the caller can mend comes back as an error to read; whatever else
is raised is ours to mend and passes through.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cue_agent.llm.fields import ArgumentError, Field, Record
from cue_agent.peers import SessionEndedError
from cue_core.errors import CueError, UnknownNameError

_MOST_TEXT = 12_000


class LimitError(CueError):
    """A call asks for more than is allowed; ``limit`` names the limit."""

    def __init__(self, limit: str, message: str) -> None:
        """Name the limit in the message too."""
        super().__init__(f"refused by limit {limit}: {message}")
        self.limit = limit


@dataclass(frozen=True)
class Picture:
    """A picture as PNG, and what it shows."""

    png: bytes
    caption: str


@dataclass(frozen=True)
class Reply:
    """What a tool answers.

    Attributes:
        data: plain data, numbers with their unit in the name; for a refusal ``error``.
        pictures: for where a person would look.
        failed: the call did nothing.
        limit: that refused it, empty = none.
    """

    data: Mapping[str, Any]
    pictures: tuple[Picture, ...] = ()
    failed: bool = False
    limit: str = ""

    @property
    def text(self) -> str:
        """Return the data as JSON, cut off where it would be too long."""
        text = json.dumps(_short(self.data), ensure_ascii=False)
        return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + " ... cut off"


def _short(value: Any) -> Any:
    """Return plain data with numbers of five digits; what is not known becomes null."""
    if isinstance(value, Mapping):
        return {str(k): _short(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if value == value and abs(value) != float("inf") else None
    return value


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes:
        name: of the tool.
        description: for whoever calls it.
        arguments: by name.
        run: takes the checked arguments by name; returns a reply, or its data.
        optional: names of arguments that may be left out.
        moves: the arm may move.
    """

    name: str
    description: str
    arguments: Mapping[str, Field]
    run: Callable[..., Reply | Mapping[str, Any]]
    optional: Sequence[str] = ()
    moves: bool = False

    @property
    def record(self) -> Record:
        """Return the type of all arguments together."""
        return Record(self.arguments, self.optional)

    def definition(self) -> dict[str, Any]:
        """Return name, description and schema in the form that APIs of models and MCP share but for key names."""
        return {"name": self.name, "description": self.description, "input_schema": self.record.schema()}


Guard = Callable[[Tool, Mapping[str, Any]], None]
"""Raises :class:`LimitError` where a checked call must not be carried out."""


@dataclass
class Registry:
    """Tools by name, and what stands before each call.

    Attributes:
        tools: by name.
        guards: are asked in order, once the arguments are known to be sound.
        refused: takes tool, arguments, limit and message of each call that was not carried out.
    """

    tools: dict[str, Tool] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)
    refused: Callable[[str, Any, str, str], None] = lambda _tool, _arguments, _limit, _message: None

    def add(self, tools: Iterable[Tool]) -> None:
        """Add tools.

        Raises:
            CueError: a name is taken.
        """
        for tool in tools:
            if tool.name in self.tools:
                raise CueError(f"there is a tool {tool.name} already")
            self.tools[tool.name] = tool

    def definitions(self) -> list[dict[str, Any]]:
        """Return the definitions of all tools, always in the same order."""
        return [tool.definition() for tool in self.tools.values()]

    def call(self, name: str, arguments: Any) -> Reply:
        """Carry out a call, or say why not.

        Raises:
            SessionEndedError: the session is over.
        """
        limit = "arguments"
        try:
            if name not in self.tools:
                limit = "tools"
                raise UnknownNameError("tool", name, self.tools)
            tool = self.tools[name]
            checked = tool.record.check("", arguments)
            for guard in self.guards:
                guard(tool, checked)
            limit = ""
            found = tool.run(**checked)
        except SessionEndedError:
            raise
        except LimitError as error:
            return self._refuse(name, arguments, error.limit, str(error))
        except ArgumentError as error:
            return self._refuse(name, arguments, "arguments", str(error))
        except CueError as error:
            return self._refuse(name, arguments, limit, str(error))
        return found if isinstance(found, Reply) else Reply(found)

    def _refuse(self, name: str, arguments: Any, limit: str, message: str) -> Reply:
        self.refused(name, arguments, limit, message)
        told: dict[str, Any] = {"error": message}
        return Reply({**told, "limit": limit} if limit else told, failed=True, limit=limit)
