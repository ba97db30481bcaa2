"""CPU time tells within seconds whether processes are at work, however long they were quiet before."""

from __future__ import annotations

import pytest

from tailbit.streaming.watch import processes
from tailbit.streaming.watch.processes import BUSY, WINDOW_S, Rate


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(processes, "time", made)
    return made


def test_work_after_a_night_of_quiet_is_seen_within_seconds(clock: Clock) -> None:
    cpu = Rate(BUSY)
    clock.now = 36_000.0
    seen = []
    for second in range(10):
        clock.now += 1.0
        seen.append(cpu.is_busy(100.0 + second))
    assert any(seen[:2])
    assert all(seen[2:])


def test_work_below_the_least_part_of_a_core_is_none(clock: Clock) -> None:
    cpu = Rate(BUSY)
    seen = []
    for second in range(60):
        clock.now += 1.0
        seen.append(cpu.is_busy(second * BUSY / 2))
    assert not any(seen)


def test_short_work_counts_over_the_window(clock: Clock) -> None:
    cpu = Rate(BUSY)
    clock.now = WINDOW_S - 1.0
    assert not cpu.is_busy(BUSY)
    clock.now = WINDOW_S
    assert cpu.is_busy(2 * BUSY * WINDOW_S)
