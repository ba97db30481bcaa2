"""A build keeps one record of what it has done, from which all show files, rows, rate and time left."""

from __future__ import annotations

import pytest

from tailbit.checkpoints.builds import Build, Builds, build_text
from tailbit.index.maintenance.rebuild import BuildExtent, Extent

NOTHING, WHOLE = Extent(), Extent(10, 1000, 5000)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def begun(clock: Clock, built: Extent = NOTHING) -> Build:
    build = Build("t", clock=clock)
    build.begin("first", lambda: BuildExtent(WHOLE, built))
    return build


def test_rate_and_time_left_are_those_of_this_process_alone() -> None:
    """What an earlier process has built counts as done, and not for the rate."""
    clock = Clock()
    build = begun(clock, Extent(4, 400, 2000))
    clock.now = 10.0
    build.add(Extent(1, 100, 500))
    account = build.progress().account()  # type: ignore[union-attr]
    assert (account["files_done"], account["rows_done"], account["part"]) == (5, 500, 0.5)
    assert (account["rows_per_second"], account["seconds_left"]) == (10.0, 50.0)


def test_the_rate_follows_a_disk_that_becomes_slower() -> None:
    clock = Clock()
    build = begun(clock)
    for second in range(1, 6):
        clock.now = float(second)
        build.add(Extent(1, 100, 500))
    quick = build.progress()
    clock.now = 405.0
    build.add(Extent(1, 100, 500))
    slow = build.progress()
    assert quick is not None
    assert slow is not None
    assert quick.seconds_left == pytest.approx(5.0)
    assert slow.seconds_left is not None
    assert slow.seconds_left > 500


def test_a_step_that_fails_takes_back_what_it_had_added() -> None:
    build = begun(Clock())
    build.add(Extent(2, 200, 1000))

    def fail() -> None:
        with build.step():
            build.add(Extent(3, 300, 1500))
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        fail()
    assert build.progress().extent.built == Extent(2, 200, 1000)  # type: ignore[union-attr]


def test_work_that_is_done_twice_never_makes_more_than_all_of_it() -> None:
    build = begun(Clock())
    for _ in range(7):
        build.add(Extent(2, 200, 1000))
    assert build.progress().part == 1.0  # type: ignore[union-attr]


def test_tasks_elsewhere_are_seen_before_their_results_are_here() -> None:
    build = begun(Clock())
    with build.watching(lambda: Extent(3, 300, 1500)):
        assert build.progress().extent.built.files == 3  # type: ignore[union-attr]
    build.add(Extent(3, 300, 1500))
    assert build.progress().extent.built.files == 3  # type: ignore[union-attr]


def test_the_extent_of_a_build_is_found_once_until_another_begins() -> None:
    looks = []
    build = begun(Clock())
    for key in ("first", "first", "second"):
        build.begin(key, lambda: looks.append(1) or BuildExtent(WHOLE, Extent()))  # type: ignore[func-returns-value]
    assert len(looks) == 1
    build.end()
    assert build.progress() is None


def test_a_short_batch_is_not_shown_and_of_two_builds_the_larger_is() -> None:
    builds = Builds()
    batches, filling = (builds.build("id", builder, "t") for builder in ("batches", "filling"))
    batches.begin(1, lambda: BuildExtent(Extent(1, 1, 1), Extent()))
    assert (builds.of("id"), list(builds.at_work()), builds.accounts()) == (None, [], {})
    filling.begin(1, lambda: BuildExtent(WHOLE, Extent(), definitions=("by_day",)))
    shown = builds.of("id", shown_s=0.0)
    assert shown is not None
    assert shown.extent.definitions == ("by_day",)
    assert builds.build("id", "filling", "t") is filling
    builds.forget("id")
    assert builds.of("id", shown_s=0.0) is None


@pytest.mark.parametrize(
    ("extent", "text"),
    [
        (BuildExtent(Extent(1, 1, 9), Extent()), "0 %: 0 of 1 file, 0 of 1 row"),
        (BuildExtent(Extent(3, 0, 9), Extent(1, 0, 3), False), "33 %: 1 of 3 files"),
        (BuildExtent(Extent(3, 30, 9), Extent(1, 10, 3), False), "33 %: 1 of 3 files, 10 of about 30 rows"),
        (
            BuildExtent(Extent(1000, 2000, 1000), Extent(999, 1998, 999)),
            "99 %: 999 of 1,000 files, 1,998 of 2,000 rows",
        ),
        (BuildExtent(Extent(), Extent()), "100 %: 0 of 0 files"),
    ],
)
def test_progress_in_words_says_what_is_estimated_and_never_rounds_up(extent: BuildExtent, text: str) -> None:
    build = Build("t", clock=Clock())
    build.begin(1, lambda: extent)
    progress = build.progress()
    assert progress is not None
    assert build_text(progress.account()) == text
