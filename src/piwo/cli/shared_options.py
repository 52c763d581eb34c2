"""Options that several commands share: policies, estimates, output and long runs."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

import piwo
from piwo.cli.log_options import number_of
from piwo.cli.settings import settings_of
from piwo.errors import UsageError
from piwo.intervals.point import ESTIMATORS, MARGINAL
from piwo.intervals.table import interval_help
from piwo.policies import Policy, SavedPolicy
from piwo.visible import without_secrets

__all__ = [
    "DEFAULT_ESTIMATE",
    "DEFAULT_OUTPUT",
    "DEFAULT_RUN",
    "NO_POLICY",
    "EstimateOptions",
    "NamedPolicy",
    "OutputOptions",
    "PolicyOptions",
    "RunOptions",
    "gamma_of",
    "horizon_of",
    "named_policy",
]


@Parameter(name="*", group=Group("Output", sort_key=4))
@dataclass(frozen=True)
class OutputOptions:
    """What is printed."""

    json: Annotated[
        bool,
        Parameter(
            help="Print one JSON document to standard output, and nothing else.",
            show=True,
            show_default=False,
        ),
    ] = False
    quiet: Annotated[bool, Parameter(help="Print the answer and errors alone.")] = False
    debug: Annotated[bool, Parameter(help="Print the traceback of an error.")] = False


DEFAULT_OUTPUT = OutputOptions()


@Parameter(name="*", group=Group("Run", sort_key=5))
@dataclass(frozen=True)
class RunOptions:
    """How a long computation runs."""

    checkpoint: Annotated[
        Path | None,
        Parameter(
            help="File for the progress: after an interruption, the same command "
            "resumes there, with the same result. The file is removed at the end. "
            "Learners that read all rows at once (auto, classifier) start again."
        ),
    ] = None


DEFAULT_RUN = RunOptions()


@Parameter(name="*", group=Group("Estimate", sort_key=3))
@dataclass(frozen=True)
class EstimateOptions:
    """How values are estimated."""

    estimator: Annotated[
        str | None,
        Parameter(
            help=f"Point estimate: {', '.join([*ESTIMATORS, MARGINAL])}. [default: iw; with "
            "--interval ix or ls, the same]"
        ),
    ] = None
    categories: Annotated[
        str | None,
        Parameter(
            help="For --estimator mips, the category of each action: a=x,b=y, or @FILE with one "
            "label=category a line, or columns of --items: kind,size."
        ),
    ] = None
    gamma: Annotated[
        str,
        Parameter(
            help="Smoothing parameter of the estimator: implicit exploration of ix, threshold "
            "of clip, lam = 2 gamma for ls and ls-linear. A number, or auto: "
            "sqrt(log(2/delta)/n)."
        ),
    ] = "auto"
    delta: Annotated[
        float, Parameter(help="Joint error probability of all intervals.", show=True)
    ] = 0.05
    interval: Annotated[
        str,
        Parameter(help=interval_help()),
    ] = "auto"
    horizon: Annotated[
        str | None,
        Parameter(
            help="For a log that grows and is evaluated repeatedly: its planned number "
            "of rows, or universal, declared before the first look. The intervals then "
            "hold at all looks jointly. With --interval deadline and a number they are narrower "
            "near it, if rows are in the order of the decisions, and contexts and rewards do not "
            "drift; auto assumes neither."
        ),
    ] = None
    rate_cap: Annotated[
        float | None,
        Parameter(
            help="A cap on the mean reward of every context and action, known beforehand, such as "
            ".05 for clicks: upper ends then assume it, and become useful for rare rewards."
        ),
    ] = None
    reward_model: Annotated[
        str | None,
        Parameter(
            help="forward: predict each reward from earlier rows only, for narrower intervals "
            "with control variates; predictions: use those of the column of --predictions."
        ),
    ] = None


DEFAULT_ESTIMATE = EstimateOptions()


def gamma_of(text: str) -> float | str | tuple[float, ...]:
    """Return the value of --gamma: "auto", a number, or several.

    Raises:
        UsageError: for other text.

    >>> gamma_of("auto"), gamma_of(".01"), gamma_of(".1,.2")
    ('auto', 0.01, (0.1, 0.2))
    """
    if text == "auto":
        return text
    numbers = tuple(number_of(x, "--gamma") for x in text.split(","))
    # A score would report its own parameter and scale: lam = 2 gamma.
    if not all(0.0 <= x < math.inf for x in numbers):
        raise UsageError(f"--gamma got {text!r}, expected finite numbers of at least 0")
    if len(numbers) == 1:
        return numbers[0]
    return numbers


def horizon_of(text: str | None) -> int | Literal["universal"] | None:
    """Return the value of --horizon: None, a number of rows, or "universal".

    Raises:
        UsageError: for other text.

    >>> horizon_of(None), horizon_of("100000"), horizon_of("universal")
    (None, 100000, 'universal')
    """
    if text is None:
        return None
    if text == "universal":
        return "universal"
    if not re.fullmatch(r"[0-9]+", text) or int(text) == 0:
        raise UsageError(
            f"--horizon got {text!r}, expected a whole number of rows, at least 1, or universal"
        )
    return int(text)


@dataclass(frozen=True)
class NamedPolicy:
    """A policy that an option names; it is made once the actions of the log are known."""

    make: Callable[[piwo.Actions], Policy]
    saved: SavedPolicy | None = None
    """The contents of its file, for a policy from a file."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The records in its file; empty for a policy that is not from a file."""
        if self.saved is None:
            return {}
        return self.saved.metadata

    @property
    def columns(self) -> tuple[str, ...]:
        """The context columns that it needs, of a policy from a file."""
        if self.saved is None or self.saved.policy.features is None:
            return ()
        return self.saved.policy.features.columns


_WITHOUT_FILE: Mapping[str, Callable[[piwo.Actions], Policy]] = {
    "uniform": piwo.policies.Uniform,
    "logging": piwo.policies.Logging,
}


@Parameter(name="*", group=Group("Policies", sort_key=1))
@dataclass(frozen=True)
class PolicyOptions:
    """The policies to evaluate."""

    policy: Annotated[
        list[str] | None,
        Parameter(
            help="uniform, logging, constant:LABEL, a file; repeatable.",
            show=True,
        ),
    ] = None
    policy_column: Annotated[
        list[str] | None,
        Parameter(help="Column of pi(action | context); repeatable.", show=True),
    ] = None

    @property
    def columns(self) -> list[str]:
        """The columns of the log that hold probabilities of policies."""
        return self.policy_column or []

    def words(self, command: str) -> list[str]:
        """Return the policies as a user would type them for a command.

        Args:
            command: whose settings in the settings file are left out.

        >>> PolicyOptions(["uniform"], ["new"]).words("evaluate")
        ['--policy', 'uniform', '--policy-column', 'new']
        """
        settings = settings_of(command)
        words = []
        for option, given in (("--policy", self.policy), ("--policy-column", self.policy_column)):
            if given and settings.get(option) != ",".join(given):
                for one in given:
                    words += [option, without_secrets(one)]
        return words

    def named(self) -> dict[str, NamedPolicy]:
        """Return the policies by the words that name them; policy files are read.

        Raises:
            UsageError: for no policy, one that is named twice, or a word that is neither a policy
                nor a file.
            FileError: for a policy file that cannot be used.
        """
        words = [*(self.policy or []), *self.columns]
        if not words:
            raise UsageError(
                "no policy was named; give --policy uniform, constant:LABEL or a "
                "file, or --policy-column"
            )
        for place, word in enumerate(words):
            # They are the names of the rows of results.
            if word in words[:place]:
                raise UsageError(f"policy {word!r} was named twice; name each once")
        found = {word: named_policy(word) for word in self.policy or []}
        for name in self.columns:
            found[name] = _column_policy(name)
        return found


def _column_policy(name: str) -> NamedPolicy:
    return NamedPolicy(lambda _: piwo.policies.Column(name))


NO_POLICY = PolicyOptions()


def named_policy(word: str) -> NamedPolicy:
    """Return the policy that a word names: uniform, logging, constant:LABEL, or a policy file.

    Raises:
        UsageError: for a word that is none of these.
        FileError: for a policy file that cannot be used.
    """
    if word in _WITHOUT_FILE:
        return NamedPolicy(_WITHOUT_FILE[word])
    kind, colon, label = word.partition(":")
    if colon and kind == "constant":
        return NamedPolicy(lambda actions: piwo.policies.Constant(label, actions))
    # Path.exists raises for a name that is too long for a file.
    if not os.path.exists(word):  # noqa: PTH110
        known = [*_WITHOUT_FILE, "constant:LABEL"]
        near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
        hint = ""
        if near:
            hint = f"did you mean {near[0]!r}? "
        raise UsageError(
            f"no policy and no file {without_secrets(word)!r}; {hint}expected uniform, "
            "logging, constant:LABEL or a file"
        )
    saved = piwo.policies.load_with_metadata(word)
    return NamedPolicy(lambda _: saved.policy, saved)
