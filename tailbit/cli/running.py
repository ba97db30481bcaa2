"""The command that keeps an index up to date: `run`."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tailbit.base.lazy import lazy
from tailbit.cli.advice import columns_of_run
from tailbit.cli.options import (
    HintingCommand,
    config_option,
    index_option,
    json_option,
    only_config,
    storage_options,
)
from tailbit.streaming.settings import DEFAULT_MASTER, DEFAULT_TRIGGER

if TYPE_CHECKING:
    from tailbit.streaming import job, memory
    from tailbit.streaming.batch import OnProgress
    from tailbit.streaming.java import session
    from tailbit.streaming.metrics import Progress
    from tailbit.streaming.watch.watchdog import ServiceManager
else:
    job = lazy("tailbit.streaming.job")
    memory = lazy("tailbit.streaming.memory")
    session = lazy("tailbit.streaming.java.session")


@click.command(cls=HintingCommand)
@click.argument("table", required=False)
@config_option
@click.option(
    "--columns",
    metavar="A,B",
    help="Columns to index; remembered in the index, so only the first run needs it. `auto`: those that "
    "`tailbit advise` advises, which are told first.",
)
@click.option(
    "--queries",
    metavar="FILE",
    type=click.File("r", encoding="utf-8"),
    help="With --columns auto: questions that will be asked, as of `tailbit advise`.",
)
@index_option
@click.option(
    "--checkpoint",
    metavar="PATH",
    help="Spark checkpoint.  [default: INDEX/_checkpoint; ~/.cache/tailbit for object stores]",
)
@click.option(
    "--once",
    is_flag=True,
    help="Index what is there and stop; without Spark and Java where no more than 1 GiB of data files is new "
    "and no --master is given.",
)
@click.option(
    "--trigger", default=DEFAULT_TRIGGER, show_default=True, help="How often to look for new commits."
)
@click.option("--master", show_default=DEFAULT_MASTER, help="Spark master.")
@click.option(
    "--stall-limit",
    metavar="TIME",
    default="60s",
    show_default=True,
    help="End with status 75, and kill Java and the workers, after this long without any sign of life: no "
    "file indexed, no task done, no CPU time taken by a worker, no look for commits answered. `off`: never.",
)
@click.option("--quiet", is_flag=True, help="No progress lines.")
@json_option
def run(
    table: str | None,
    config: str | None,
    columns: str | None,
    queries: Any,
    index: str | None,
    stall_limit: str,
    quiet: bool,
    as_json: bool,
    **of_one: Any,
) -> int:
    r"""Keep the index of TABLE up to date: a Spark Structured Streaming query that tails its commit log.

    Stop it with Ctrl-C or SIGTERM: the batch in flight is finished; after 30 s it is cut off. Start it again
    any time: it goes on where the index was. Progress and lag are also in the Spark UI. What takes longer
    is shown with its rate and the time left: as a bar, or in a log each half minute; also by `status`.
    Exit status: 0 drained, or done with --once. 75 start it again. 78 a set-up that no restart mends.

    \b
    tailbit run flights --columns carrier,origin,dest          # for ever
    tailbit run flights --columns auto                         # the columns that are worth it
    tailbit run flights --once                                 # catch up and stop
    tailbit run --config tailbit.toml                          # many tables; SIGHUP reads the file again
    """
    memory.take_from_the_system()
    if config is not None:
        _only_config((table, columns, queries, *filter(_is_given, of_one)), index)
        return _run_config(config, stall_limit, quiet=quiet, as_json=as_json)
    if table is None:
        raise click.UsageError("name a table, or a configuration: --config FILE")
    if not of_one["once"] or of_one["master"] is not None:
        session.check_requirements()
    return job.run(
        table,
        columns=columns_of_run(table, index, columns, queries, as_json=as_json),
        index=index,
        storage_options=storage_options(),
        **of_one,
        **_reporting(stall_limit, quiet=quiet, as_json=as_json),
    )


def _is_given(name: str) -> bool:
    """Return whether the command line gives an option, which has a default otherwise."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE


def _only_config(given: tuple[Any, ...], index: str | None) -> None:
    """Check that no option of a single table is given beside a configuration; None: an option not given."""
    if any(value is not None for value in given):
        raise click.UsageError("of other options, --config takes --stall-limit, --quiet and --json alone")
    only_config([], index)


def _run_config(file: str, stall_limit: str, *, quiet: bool, as_json: bool) -> int:
    """Run all tables of a configuration; `--stall-limit` on the command line overrides the file's limit."""
    from tailbit.streaming.config.read import read_config

    if not _is_given("stall_limit"):
        stall_limit = f"{read_config(file).config.application.stall_limit or 'off'}"
    session.check_requirements()
    from tailbit.streaming.many.application import run_config

    return run_config(file, **_reporting(stall_limit, quiet=quiet, as_json=as_json))


def _reporting(stall_limit: str, *, quiet: bool, as_json: bool) -> dict[str, Any]:
    """Return keyword arguments of a run: its callbacks (systemd's too), and when the run counts as hung."""
    from tailbit.base.wording import tell_nobody
    from tailbit.checkpoints.builds import Builds
    from tailbit.cli.building import BuildLines, bars
    from tailbit.cli.render import notice_lines, progress_lines
    from tailbit.streaming.settings import milliseconds
    from tailbit.streaming.watch.watchdog import ServiceManager, Supervision

    tell = notice_lines(as_json)
    limit_s = 0.0 if stall_limit == "off" else milliseconds(stall_limit) / 1000
    builds = Builds()
    on_progress = None if quiet else progress_lines(as_json, partial(bars, builds))
    if not quiet and (as_json or not sys.stderr.isatty()):
        BuildLines(builds, as_json=as_json).start()
    supervision = Supervision(limit_s, announce=tell_nobody if quiet else tell)
    systemd = ServiceManager.taken_from(stall_limit_s=limit_s)
    if systemd is not None:
        on_progress = _noted_by(systemd, on_progress)
        supervision = replace(supervision, on_life=systemd.lives, on_up=systemd.up, on_end=systemd.ends)
    return {"on_progress": on_progress, "tell": tell, "supervision": supervision, "builds": builds}


def _noted_by(systemd: ServiceManager, on_progress: OnProgress | None) -> OnProgress:
    """Return a callback that passes progress on, and shows it in systemd's next status."""
    from tailbit.cli.render import progress_text

    def note(progress: Progress) -> None:
        systemd.note(progress_text(progress))
        if on_progress is not None:
            on_progress(progress)

    return note
