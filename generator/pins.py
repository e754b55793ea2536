"""Pinned parameters: the part of a family's space that a user restricts a search or an answer to."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from warpsmith.errors import BadArgument
from warpsmith.generator.space import Config, Space, Value, shortened

PinnedValues = Mapping[str, Value | Iterable[Value]]
"""Values by the name of their parameter: one value, or several of which any may be chosen."""

EXAMPLE = "path=texture or rows=2,4"


@dataclasses.dataclass(frozen=True, slots=True)
class Pins:
    """Parameters with the values that they may have. Equal pins have equal items, in whichever order they were given.

    A config is inside if it has every pinned parameter, with one of the values. Families without one of the parameters
    have no config inside.
    """

    items: tuple[tuple[str, tuple[Value, ...]], ...] = ()

    @classmethod
    def of(cls, parameters: PinnedValues | None) -> Pins:
        """Pins from values by name; None pins nothing. Raises BadArgument for anything else."""
        if parameters is None:
            return cls()
        if not isinstance(parameters, Mapping):
            raise BadArgument(f"parameters must map names to values, such as {{'path': 'texture'}}; got {parameters!r}")
        return cls(tuple(sorted((_name(name), _values(name, value)) for name, value in parameters.items())))

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Pins:
        """Pins from texts such as `path=texture` and `rows=2,4`.

        Raises BadArgument for another form, and for a name that is given twice with different values.
        """
        found: dict[str, tuple[Value, ...]] = {}
        for text in texts:
            name, equals, values = (part.strip() for part in text.partition("="))
            words = [word.strip() for word in values.split(",")]
            if not (name and equals and all(words)):
                raise BadArgument(f"--set takes NAME=VALUE[,VALUE...], such as {EXAMPLE}; got {text!r}")
            parsed = _values(name, [int(word) if re.fullmatch(r"-?\d+", word) else word for word in words])
            if found.setdefault(name, parsed) != parsed:
                raise BadArgument(f"{name} is set twice, to {shortened(found[name])} and to {shortened(parsed)}")
        return cls(tuple(sorted(found.items())))

    def __bool__(self) -> bool:
        return bool(self.items)

    def __str__(self) -> str:
        return self.key()

    def key(self) -> str:
        """Text that identifies these pins in a store: `path=texture rows=2,4`; empty if nothing is pinned."""
        return " ".join(f"{name}={','.join(map(str, values))}" for name, values in self.items)

    def allow(self, config: Config) -> bool:
        """True if a config is inside."""
        own = config.values()
        return all(own.get(name) in values for name, values in self.items)

    def narrowed(self, space: Space) -> Space:
        """The part of a space that is inside. Call it only if `why_not` is None."""
        return space.having(dict(self.items)) if self.items else space

    def why_not(self, space: Space) -> str | None:
        """Reason why no config of a space is inside, in one line; None if there is one."""
        return space.why_none_has(dict(self.items)) if self.items else None


NO_PINS = Pins()
"""Every config is inside."""


def why_none_inside(pins: Pins, reasons: Mapping[str, str], spaces: Mapping[str, Space]) -> str:
    """One line that says why no family has a config inside, and what is allowed.

    Args:
        pins: pins that no family allows.
        reasons: for each family that solves the problem, why none of its configs is inside.
        spaces: the whole space of each of these families.
    """
    known = {name: None for space in spaces.values() for name in space.names}
    if unknown := [name for name, _ in pins.items if name not in known]:
        import difflib  # takes 5 ms, which a process's first plan should not wait for

        near = difflib.get_close_matches(unknown[0], known, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {shortened(sorted(known))}"
        return f"no family has a parameter {unknown[0]}{hint}"
    with_all = [name for name in reasons if spaces[name].names.issuperset(each for each, _ in pins.items)]
    families: dict[str, list[str]] = {}
    for name in with_all or reasons:
        families.setdefault(reasons[name], []).append(name)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in families.items())


def _name(name: object) -> str:
    if isinstance(name, str) and name:
        return name
    raise BadArgument(f"a parameter's name must be text; got {name!r}")


def _values(name: str, given: Value | Iterable[Value]) -> tuple[Value, ...]:
    """The values of one parameter, each once and in order."""
    try:
        values = (given,) if isinstance(given, int | str) else tuple(given)
    except TypeError:
        values = ()
    if not values or not all(isinstance(value, int | str) and not isinstance(value, bool) for value in values):
        raise BadArgument(f"{name} must be set to a whole number, a word, or several of these; got {given!r}")
    return tuple(sorted(dict.fromkeys(values), key=lambda value: (isinstance(value, str), value)))
