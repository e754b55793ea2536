"""Classes of families of filters that answer on a GPU, with two ways to choose a default: an order, and a model."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterable, Iterator

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.space import Config, Space


class GpuFamily(Family[Filter1d]):
    """A family that may answer wherever it solves a problem on a GPU."""

    def is_likely(self, problem: Filter1d, device: Device) -> bool:
        return device.kind is DeviceKind.CUDA and self.why_not(problem, device) is None


class OrderedFamily(GpuFamily):
    """A family whose default is the first legal one of some configs."""

    @abc.abstractmethod
    def candidates(self, problem: Filter1d, device: Device) -> Iterator[Config]:
        """Yields configs for the default, the likeliest first, legal or not."""

    def first_legal(self, problem: Filter1d, device: Device) -> Config | None:
        """The default; None if no config is legal."""
        return _first_legal(self, problem, device)

    def default(self, problem: Filter1d, device: Device) -> Config:
        config = self.first_legal(problem, device)
        if config is None:
            raise ValueError(f"{self.name} has no config for {problem.key()}; ask why_not first")
        return config


class RankedFamily(GpuFamily):
    """A family whose default is the fastest one of some configs, by its model."""

    @abc.abstractmethod
    def ranked(self, problem: Filter1d, device: Device) -> tuple[tuple[float, Config], ...]:
        """Legal configs with their expected times in ns, the fastest first; empty if no config is legal."""

    def expected_ns(self, problem: Filter1d, device: Device) -> float | None:
        ranked = self.ranked(problem, device)
        return ranked[0][0] if ranked else None

    def default(self, problem: Filter1d, device: Device) -> Config:
        ranked = self.ranked(problem, device)
        if not ranked:
            raise ValueError(f"{self.name} has no config for {problem.key()}; ask why_not first")
        return ranked[0][1]


def ranked_by(
    space: Space, configs: Iterable[Config], expected_ns: Callable[[Config], float | None]
) -> tuple[tuple[float, Config], ...]:
    """Legal ones of some configs with their expected times in ns, the fastest first; those without one are left out."""
    times = ((expected_ns(config), config) for config in filter(space.contains, configs))
    return tuple(sorted(((each, config) for each, config in times if each is not None), key=lambda each: each[0]))


@functools.lru_cache(maxsize=1024)
def _first_legal(family: OrderedFamily, problem: Filter1d, device: Device) -> Config | None:
    return next(filter(family.space(problem, device).contains, family.candidates(problem, device)), None)
