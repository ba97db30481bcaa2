"""What a soak has done and found so far; threads count in it at once."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Faults by name, answers by how they were asked, and every finding in words."""

    faults: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    answers: int = 0
    mismatches: int = 0
    lost: int = 0
    twice: int = 0
    upkeep: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    """Seconds from the start of the command again to its first new commit."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault(self, name: str, killed: bool = False) -> None:
        """A fault was injected; `killed`: a process died of it by SIGKILL."""
        with self.lock:
            self.faults[name] += 1
            self.kills += killed

    def answer(self, lost: int, twice: int, finding: str | None) -> None:
        """A question was answered, rightly where there is no finding."""
        with self.lock:
            self.answers += 1
            self.lost += lost
            self.twice += twice
            if finding is not None:
                self.mismatches += 1
                self.findings.append(finding)

    def found(self, finding: str) -> None:
        """Something went wrong that is no answer."""
        with self.lock:
            self.findings.append(finding)

    def __str__(self) -> str:
        injected = sum(self.faults.values())
        return (
            f"{self.kills} kills survived, {injected} faults injected, {self.answers:,} answers checked, "
            f"{self.mismatches} mismatches, {self.lost} rows lost, {self.twice} rows twice"
        )
