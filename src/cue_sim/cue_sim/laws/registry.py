"""The registry of laws: what ``native/laws`` holds, and the strike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from cue_core.checks import finite_in
from cue_core.errors import UnknownNameError
from cue_core.parameters import Parameter
from cue_sim.laws.library import OWN, SLOTS, KernelError, load

if TYPE_CHECKING:
    from cue_sim.laws.coefficients import Laws


@runtime_checkable
class Law(Protocol):
    """A law: from what is the case just before to what is just after, in plain local coordinates.

    Attributes:
        slot: "cloth", "ball", "cushion" or "strike".
        name: of the law in its slot.
        source: paper and equations.
        description: in one line.
        parameters: its own, beyond the fields of :class:`Laws`.
    """

    @property
    def slot(self) -> str: ...  # noqa: D102

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def source(self) -> str: ...  # noqa: D102

    @property
    def description(self) -> str: ...  # noqa: D102

    @property
    def parameters(self) -> Mapping[str, Parameter]: ...  # noqa: D102

    def __call__(self, before: Any, laws: Laws, /) -> Any:
        """Return what the law makes of ``before``; both types belong to the slot (:mod:`cue_sim.laws.evaluate`)."""


@dataclass(frozen=True)
class NativeLaw:
    """A law of ``native/laws``; fulfils :class:`Law`.

    Attributes:
        slot, name, source, description, parameters: see :class:`Law`.
        dissipative: it has no meaning for a restitution beyond 1.
        index: its place in the native registry; changes when a law is added, so it is never stored.
    """

    slot: str
    name: str
    source: str
    description: str
    parameters: Mapping[str, Parameter]
    dissipative: bool
    index: int

    def __call__(self, before: Any, laws: Laws, /) -> Any:
        """Return what the law makes of ``before``, whichever law ``laws`` names for the slot.

        The law's own parameters are those in ``laws`` if they are this law's, else nominal.

        Args:
            before: a ``CushionImpact``, ``BallImpact`` or ``ClothMotion``, as the slot asks.
            laws: coefficients.

        Raises:
            FileFormatError: ``before`` belongs to another slot, or its shapes do not fit.
        """
        from cue_sim.laws.evaluate import evaluate

        return evaluate(self, before, laws)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name: the place in the registry may differ elsewhere."""
        return native, (self.slot, self.name)


@cache
def _slot(slot: str) -> Mapping[str, NativeLaw]:
    library, number = load(), SLOTS.index(slot)
    found: dict[str, NativeLaw] = {}
    while record := library.cue_law_at(number, len(found)):
        law = record.contents
        name = law.name.decode()
        if name in found:
            raise KernelError(f"two {slot} laws are named {name!r}")
        own: dict[str, Parameter] = {}
        while law.parameters and law.parameters[len(own)].name:
            item = law.parameters[len(own)]
            if len(own) == OWN:
                raise KernelError(f"{slot} law {name!r} has more than {OWN} parameters")
            text = (item.name.decode(), item.unit.decode(), item.nominal, item.minimum, item.maximum)
            own[text[0]] = Parameter(*text, description=item.description.decode(), source=law.source.decode())
        found[name] = NativeLaw(
            slot,
            name,
            law.source.decode(),
            law.description.decode(),
            MappingProxyType(own),
            bool(law.dissipative),
            len(found),
        )
    return MappingProxyType(found)


def native(slot: str, name: str) -> NativeLaw:
    """Return the law of that name in "cloth", "ball" or "cushion".

    Raises:
        UnknownNameError: there is none; lists those there are.
    """
    laws = _slot(slot)
    if name not in laws:
        raise UnknownNameError(f"{slot} law", name, laws)
    return laws[name]


def _all(slot: str) -> Mapping[str, Law]:
    if slot == "strike":
        from cue_sim.laws.evaluate import STRIKES

        return STRIKES
    if slot not in SLOTS:
        raise UnknownNameError("slot", slot, (*SLOTS, "strike"))
    return _slot(slot)


def available(slot: str) -> tuple[str, ...]:
    """Return the names of the laws for "cloth", "ball", "cushion" or "strike", sorted.

    Raises:
        UnknownNameError: no such slot; lists the slots.
        KernelError: the native library is not built.
    """
    return tuple(sorted(_all(slot)))


def find(slot: str, name: str) -> Law:
    """Return the law of that name in that slot.

    Raises:
        UnknownNameError: no such slot or law; lists the valid names.
    """
    laws = _all(slot)
    if name not in laws:
        raise UnknownNameError(f"{slot} law", name, laws)
    return laws[name]


def own_values(law: NativeLaw, given: Mapping[str, float]) -> np.ndarray:
    """Return the (8,) values of a law's own parameters in its order, zeros behind; nominal where not given.

    Raises:
        UnknownNameError: the law has no such parameter; lists those it has.
        OutOfRangeError: naming the parameter.
    """
    values = np.zeros(OWN)
    for i, item in enumerate(law.parameters.values()):
        values[i] = item.nominal
    order = list(law.parameters)
    for name, value in given.items():
        if name not in law.parameters:
            raise UnknownNameError(f"parameter of {law.slot} law {law.name!r}", name, order)
        item = law.parameters[name]
        unit = "" if item.unit == "1" else item.unit
        values[order.index(name)] = finite_in(name, value, item.minimum, item.maximum, unit)
    return values
