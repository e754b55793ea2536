"""Configs as the parameters of Optuna's trials, and the distributions of these parameters."""

from __future__ import annotations

from collections.abc import Mapping

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from warpsmith.generator.branching_space import BranchingSpace
from warpsmith.generator.space import Config, Space, Value


def categories(space: Space) -> dict[str, BaseDistribution]:
    """A space's parameters as unordered categorical distributions of a study."""
    return {each.name: CategoricalDistribution(each.values) for each in space.parameters}


class Categories:
    """Encodes a config as unordered parameter values of a study. A space with branches has all of them made."""

    def __init__(self, space: Space) -> None:
        self.distributions = categories(space)

    def config(self, params: Mapping[str, Value]) -> Config:
        return Config.of(params)

    def params(self, config: Config) -> dict[str, Value]:
        return config.values()

    def distributions_of(self, config: Config) -> dict[str, BaseDistribution]:
        """Distributions of the parameters that a config has."""
        return {name: self.distributions[name] for name, _ in config.items}


class Places:
    """Encodes a config as the index of each value in its parameter's list of values."""

    def __init__(self, space: Space) -> None:
        self._values = {each.name: each.values for each in space.parameters}
        self.distributions: dict[str, BaseDistribution] = {
            name: IntDistribution(0, len(values) - 1) for name, values in self._values.items()
        }

    def config(self, params: Mapping[str, Value]) -> Config:
        return Config.of({name: values[int(params[name])] for name, values in self._values.items()})

    def params(self, config: Config) -> dict[str, Value]:
        return {name: self._values[name].index(value) for name, value in config.items}

    def distributions_of(self, config: Config) -> dict[str, BaseDistribution]:
        """Distributions of the parameters that a config has."""
        return {name: self.distributions[name] for name, _ in config.items}


class Branched:
    """Encodes a config as unordered values, each under the name of its branch, such as `16x16/first.threads`.

    The choices of a study's parameter may not change, and branches have choices of their own. Only the branches of
    configs that are encoded are made. The parameters of a space without branches keep their names.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._made: dict[str, dict[str, BaseDistribution]] = {}

    def config(self, params: Mapping[str, Value]) -> Config:
        """The config of a trial, which may have other parameters besides."""
        if not isinstance(self._space, BranchingSpace):
            return Config.of({name: params[name] for name in self._space.names})
        name = self._space.branching.name
        own = f"{params[name]}/"
        rest = {each.removeprefix(own): value for each, value in params.items() if each.startswith(own)}
        return Config.of({name: params[name], **rest})

    def params(self, config: Config) -> dict[str, Value]:
        return {self._name(name, config): value for name, value in config.items}

    def distributions_of(self, config: Config) -> dict[str, BaseDistribution]:
        """Distributions of the parameters that a config has."""
        branch = self._branch(config)
        if branch not in self._made:
            made = {self._name(name, config): each for name, each in categories(self._space.within(config)).items()}
            if isinstance(self._space, BranchingSpace):
                branching = self._space.branching
                made[branching.name] = CategoricalDistribution(branching.values)
            self._made[branch] = made
        return self._made[branch]

    def _branch(self, config: Config) -> str:
        """Value of the branching parameter; empty for a space without branches."""
        return config.text(self._space.branching.name) if isinstance(self._space, BranchingSpace) else ""

    def _name(self, name: str, config: Config) -> str:
        if not isinstance(self._space, BranchingSpace) or name == self._space.branching.name:
            return name
        return f"{self._branch(config)}/{name}"


Coding = Categories | Places | Branched
