"""What an experiment offers, and how its loggers are run: one after the other, or in processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from threadpoolctl import threadpool_limits

from piwo.engines.cores import cores
from piwo.errors import PiwoError

__all__ = ["Experiment", "LoggerType", "Named", "Outcome", "outcomes"]


class Named(Protocol):
    """A logger, as far as this file cares."""

    @property
    def name(self) -> str:
        """Such as "good-07": names its files, and differs from all others."""


class Outcome(Protocol):
    """What one logger's policies, and the logger itself, are worth."""

    @property
    def results(self) -> pa.Table:
        """Of the schema `experiments.results.RESULTS`."""

    @property
    def logger(self) -> pa.Table:
        """Of the schema `experiments.results.LOGGERS`."""


LoggerType = TypeVar("LoggerType", bound=Named)


class Experiment(Protocol[LoggerType]):
    """What is run, logger by logger."""

    def loggers(self) -> Sequence[LoggerType]:
        """Return all loggers, in the order to run them."""

    def run(self, logger: LoggerType) -> Outcome:
        """Return the outcome of one logger; it depends only on the logger and the settings."""


def outcomes(
    experiment: Experiment[LoggerType], loggers: Sequence[LoggerType], processes: int
) -> Iterator[tuple[str, Outcome]]:
    """Yield the name and the outcome of each logger, as soon as it is done.

    Args:
        experiment: what is run; for several processes it is copied to each of them.
        loggers: which of its loggers.
        processes: how many run at once. Each has its share of the cores: threads of one
            interpreter wait for each other, processes do not.
    """
    if processes <= 1:
        # Our own threads use all cores; those of BLAS would spin between its short calls.
        with threadpool_limits(1, "blas"):
            for logger in loggers:
                yield logger.name, experiment.run(logger)
        return
    share = max(1, cores() // processes)
    # A fork would copy locks that other threads hold.
    context = get_context("spawn")
    open_until_the_end, ours = context.Pipe(duplex=False)
    begin = (experiment, share, open_until_the_end)
    pool = ProcessPoolExecutor(processes, context, _begin, begin)
    try:
        for done in as_completed(_submitted(pool, loggers)):
            yield done.result()
    except BrokenProcessPool as error:
        raise PiwoError(
            "a process that ran a logger was killed, probably for lack of memory; the same command "
            "goes on from what was finished, and PIWO_THREADS=1 runs one logger at a time"
        ) from error
    finally:
        ours.close()
        open_until_the_end.close()
        pool.shutdown(cancel_futures=True)


def _submitted(
    pool: ProcessPoolExecutor, loggers: Sequence[LoggerType]
) -> list[Future[tuple[str, Outcome]]]:
    try:
        return [pool.submit(_run, logger) for logger in loggers]
    except OSError as error:
        # A process that dies meanwhile closes the pipe by which the pool is told of new work: an
        # error without a number, unlike those of the system, such as too many open files.
        if error.errno is not None:
            raise
        raise BrokenProcessPool from error


class _Process:
    """What a process of `outcomes` has: the experiment."""

    experiment: Experiment[Any]


def _begin(experiment: Experiment[Any], threads: int, open_until_the_end: Connection) -> None:
    """Set up a process that runs loggers."""
    _Process.experiment = experiment
    os.environ["PIWO_THREADS"] = str(threads)
    threadpool_limits(1, "blas")
    # Ctrl-C is for the parent. When it ends, in whatever way, its end of the pipe is closed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_wait_and_exit, args=(open_until_the_end,), daemon=True).start()


def _wait_and_exit(pipe: Connection) -> None:
    pipe.poll(None)
    os._exit(0)


def _run(logger: Named) -> tuple[str, Outcome]:
    return logger.name, _Process.experiment.run(logger)
