"""Problems of a configuration, each with file and line, collected so that all are told at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ConfigError
from tailbit.streaming.config.lines import Place, line_of


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem or warning: where it is, and what was found. `line`: from 1; 0 for no line of the file."""

    line: int
    found: str
    place: str = field(compare=False)

    def __str__(self) -> str:
        where = f"{self.place}:{self.line}" if self.line else self.place
        return f"{where}: {self.found}"


@dataclass
class Problems:
    """The problems and the warnings that were met so far in one file."""

    file: str
    lines: Mapping[Place, int] = field(default_factory=dict)
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def line(self, place: Place) -> int:
        """Return the line of a place, or of the nearest place above it."""
        return line_of(self.lines, place)

    def add(self, place: Place, problem: str) -> None:
        """Note an error at the line of a place."""
        self.errors.append(Problem(self.line(place), problem, self.file))

    def add_of_variable(self, variable: str, problem: str) -> None:
        """Note an error of a variable of the environment."""
        self.errors.append(Problem(0, problem, f"environment variable {variable}"))

    def warn(self, place: Place, problem: str) -> None:
        """Note a warning at the line of a place."""
        self.warnings.append(Problem(self.line(place), problem, self.file))

    def refuse(self) -> None:
        """Raise if there is an error.

        Raises:
            ConfigError: names every error, in the order of the lines.
        """
        if self.errors:
            raise refusal(self.errors)


def refusal(errors: Iterable[Problem]) -> ConfigError:
    """Return the error that names every problem, in the order of the lines."""
    return ConfigError(problems="\n".join(dict.fromkeys(map(str, sorted(errors)))))
