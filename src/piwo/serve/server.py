"""Decides one context at a time, and logs what a later evaluation needs."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeAlias
from uuid import uuid4

import numpy as np

from piwo.certificates.certificate import Certificate
from piwo.checks import check_finite, check_flag, check_kind, check_path, shown
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Label
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.logs.features import Features
from piwo.messages import argument
from piwo.policies.epsilon_greedy import EpsilonGreedy
from piwo.policies.files import SavedPolicy, load_with_metadata
from piwo.policies.policy import Policy
from piwo.policies.provenance import record_in
from piwo.policies.restricted import draw_pairs
from piwo.policies.sameness import policy_digest
from piwo.policies.sampling import RandomState, generator
from piwo.serve.choice import Choice, Chosen
from piwo.serve.encoding import RowEncoder
from piwo.serve.items import Items, item_columns, offered, refuse_without_features
from piwo.serve.log_writer import LogWriter
from piwo.slates.files import is_slate_file
from piwo.slates.policy import SlatePolicy
from piwo.visible import without_secrets

__all__ = ["FileState", "Server", "features_of", "file_state", "served_policy"]

_DECISION_ID = re.compile("[0-9a-f]{32}", re.ASCII)
"""What `decide` makes; any other id would be logged and join no decision."""
_SLATES = (
    "it is a policy of slates, and piwo.serve decides one action at a time; decide with "
    "piwo.slates.load(...).act or piwo policy act, log slate, propensities and reward of each "
    "decision, and read them with piwo.slates.read"
)
FileState: TypeAlias = tuple[int, int, int] | None
"""What changes when a file is replaced; None if it is not there."""


class _Compiled:
    """A policy, ready to decide one row at a time."""

    def __init__(self, policy: Policy, epsilon: float) -> None:
        self.given = policy
        if epsilon:
            policy = EpsilonGreedy(policy, epsilon)
        self.policy = policy
        self.features = features_of(policy)
        self.columns = frozenset(self.features.columns)
        self.encoder = RowEncoder(self.features)
        self.labels = policy.actions.labels
        self.codes = {str(label): code for code, label in enumerate(self.labels)}
        self.name = policy_digest(policy)[:16]
        self.item_columns = item_columns(policy)
        """Features of items that it reads; None: it scores actions by their labels."""


@dataclass(frozen=True)
class _Made:
    """What was decided, before it has an id."""

    action: Label
    propensity: float
    full: list[float] | None
    """The probabilities of all that could be chosen, if they are logged."""
    listed: Sequence[Label] | None = None
    """What could be chosen; None: all actions."""
    features: Sequence[Mapping[str, Any]] | None = None
    """Of each of these."""


class Server:
    """Acts with a policy, one context at a time, and logs the decisions.

    `decide` gives what `policy.act` gives for the same context and generator, to the last bit; it
    makes no data frame. A decision is written to the log before it is returned. May be called from
    several threads.

    Args:
        policy: a policy of `piwo.policies`, or the path of its file.
        log: a folder, made if there is none, for the log that `piwo.read` reads; or a `LogWriter`;
            None: decisions are not logged.
        epsilon: explore: take a uniformly random action in this fraction of the decisions.
        full: whether to log the probabilities of all actions.
        uncertified: whether to serve a policy without a certificate in its file.
        random_state: None, a seed, or a numpy Generator.

    Raises:
        UsageError: for a policy without a certificate, and one that knows only the rows of a log.
        FileError: for a policy file or a folder that cannot be used.

    >>> from piwo.policies import LinearGreedy
    >>> policy = LinearGreedy([[1.0], [-1.0]], [0.0, 0.0], ["up", "down"], Features.numeric(["x"]))
    >>> server = Server(policy, epsilon=0.1, uncertified=True, random_state=0)
    >>> choice = server.decide({"x": 2.0})
    >>> choice.action, choice.propensity
    ('up', 0.95)
    """

    def __init__(
        self,
        policy: Policy | str | PathLike[str],
        log: LogWriter | str | PathLike[str] | None = None,
        *,
        epsilon: float = 0.0,
        full: bool = False,
        uncertified: bool = False,
        random_state: RandomState = None,
    ) -> None:
        check_flag("full", full)
        check_flag("uncertified", uncertified)
        self.epsilon, self.full, self.uncertified = epsilon, full, uncertified
        self.closed = False
        self.loaded: dict[Path, FileState] = {}
        """File of the first policy -> its state just before it was loaded."""
        if not isinstance(policy, Policy | SlatePolicy):
            check_path(policy)
            self.loaded[Path(policy)] = file_state(Path(policy))
        self._serving = _Compiled(served_policy(policy, uncertified), epsilon)
        self._rng = generator(random_state)
        # Generators of NumPy must not be used by two threads at once.
        self._drawing = threading.Lock()
        if log is not None and not isinstance(log, LogWriter):
            log = LogWriter(
                log,
                self._serving.policy.actions,
                self._serving.features,
                items=self._serving.item_columns,
            )
        self.log = log
        self._check_log(self._serving)

    @property
    def policy(self) -> Policy:
        """The policy that decides, with its exploration."""
        return self._serving.policy

    @property
    def policy_name(self) -> str:
        """What the log calls the policy: the first digits of its digest."""
        return self._serving.name

    def reload(self, policy: Policy | str | PathLike[str]) -> None:
        """Decide with another policy from now on; if it cannot be used, the old one stays.

        Calls of `decide` that have begun finish with the old policy. Exploration stays as it was.

        Args:
            policy: a policy, or the path of its file.

        Raises:
            UsageError: see `Server`; and for actions or context columns that the log does not have.
            FileError: for a file that cannot be read.
        """
        made = _Compiled(served_policy(policy, self.uncertified), self.epsilon)
        self._check_log(made)
        self._serving = made

    @property
    def caution(self) -> str | None:
        """That decisions which explore are not what a certificate is about; None without them."""
        if not self.epsilon:
            return None
        return (
            f"a fraction {self.epsilon:g} of the decisions explores; a certificate of the policy "
            "is not about this mixture"
        )

    def _check_log(self, made: _Compiled) -> None:
        if self.log is not None:
            self.log.check_fits(made.policy.actions, made.features, made.item_columns)

    def decide(
        self,
        context: Mapping[str, Any] | Sequence[float] = (),
        eligible: Sequence[Label] | None = None,
        items: Items | None = None,
    ) -> Choice:
        """Return an action for one context, after it was logged.

        Args:
            context: column -> value; or a list of numbers, if all columns are numbers. A boolean is
                1 or 0 in a column of numbers; a number or boolean in a column of text is its text,
                as Arrow writes it: 7 is "7", True is "true".
            eligible: the labels that may be chosen; None: all actions, or those of `items`. Unlike
                `Policy.act`, a label that the policy does not have is an error, as it could not be
                chosen.
            items: for a policy over features of items, the features of what may be chosen, also of
                items that it has never seen: label -> {name: value}, or a list of these in the
                order of `eligible`. They are logged with the decision. None: the items that the
                policy was made with.

        Returns:
            The action, its probability, and the id that a reward names.

        Raises:
            DataError: for a context that cannot be used, such as one with a column that neither
                the policy nor the log has, for an eligible label that the policy cannot score, and
                for features that cannot be used.
            FileError: if the decision cannot be logged.
            UsageError: after `close`; for items and a policy, or a log, without features of items.

        Warns:
            PiwoWarning: for texts in `items` that were never seen when the policy was learned.
        """
        chosen = self.choose(context, eligible, items)
        if self.log is not None:
            self.log.decisions([chosen.row])
        return chosen.choice

    def choose(
        self,
        context: Mapping[str, Any] | Sequence[float] = (),
        eligible: Sequence[Label] | None = None,
        items: Items | None = None,
    ) -> Chosen:
        """Return what `decide` returns, not logged yet, with the row for `LogWriter.decisions`."""
        self._check_open()
        serving = self._serving
        features = serving.features
        if isinstance(context, Mapping):
            self._check_known(context, serving)
        else:
            context = serving.encoder.named(context)
        matrix, unseen = serving.encoder.row(context)
        seen: Floats | None = matrix if features.items else None
        made = self._made(serving, seen, eligible, items)
        choice = Choice(made.action, made.propensity, uuid4().hex)
        row: dict[str, Any] = {
            "decision_id": choice.decision_id,
            "time": _now(),
            "action": choice.action,
            "propensity": made.propensity,
            "propensities": made.full,
            "eligible": made.listed,
            "policy": serving.name,
        }
        if self.log is not None:
            if self.log.manifest.items is not None:
                row["items"] = made.features
            row.update(self.log.context_of(context))
        return Chosen(choice, row, unseen)

    def _made(
        self,
        serving: _Compiled,
        seen: Floats | None,
        eligible: Sequence[Label] | None,
        items: Items | None,
    ) -> _Made:
        """Return what is decided in one encoded context."""
        if items is not None:
            offer = offered(serving.policy, self._features_of_items(serving), eligible, items)
            place, propensity, full = self._among(offer.policy, seen, offer.eligible)
            return _Made(offer.labels[place], propensity, full, offer.labels, offer.features)
        if eligible is not None:
            some = _eligible(eligible, serving)
            place, propensity, full = self._among(serving.policy, seen, some)
            listed = [serving.labels[x] for x in some.codes.tolist()]
            return _Made(listed[place], propensity, full, listed)
        code, propensity, full = self._among_all(serving.policy, seen)
        return _Made(serving.labels[code], propensity, full)

    def _features_of_items(self, serving: _Compiled) -> Mapping[str, str]:
        """Return the features that each item must have: those of the policy and of the log."""
        refuse_without_features(serving.policy)
        assert serving.item_columns is not None
        if self.log is None:
            return serving.item_columns
        if self.log.manifest.items is None:
            raise UsageError(
                f"the log in {without_secrets(self.log.folder)!r} was made without features of "
                "items, which would be lost; log to a new folder"
            )
        # In the order of the log, which has those of the policy, too.
        return self.log.manifest.items

    def _check_known(self, context: Mapping[str, Any], serving: _Compiled) -> None:
        """Raise for a column that neither the policy nor the log has: it would be dropped."""
        known = serving.columns
        if self.log is not None:
            # It has those of the policy, too.
            known = self.log.columns
        if context.keys() <= known:
            return
        odd = min(context.keys() - known, key=str)
        ours = serving.features.columns
        listed = [*ours, *sorted(known - serving.columns)]
        expected = ", ".join(listed[:8]) if listed else "no columns"
        if len(listed) > 8:
            expected += f" and {len(listed) - 8} more"
        raise DataError(
            f"the context has the column {shown(odd)}, expected {expected}; leave it out, or let "
            "the server log it (also= of LogWriter, --context of piwo serve)"
        )

    def _check_open(self) -> None:
        if self.closed:
            raise UsageError("this server was closed, and nothing was logged; make a new one")

    def _among_all(
        self, policy: Policy, seen: Floats | None
    ) -> tuple[int, float, list[float] | None]:
        with self._drawing:
            codes, chances = policy.draw_logged(seen, 1, self._rng)
        full = None
        if self.full:
            full = policy.distribution(seen, 1)[0].tolist()
        return int(codes[0]), float(chances[0]), full

    def _among(
        self, policy: Policy, seen: Floats | None, some: Eligible
    ) -> tuple[int, float, list[float] | None]:
        chances = policy.within(seen, some)
        with self._drawing:
            place = int(draw_pairs(chances, some, self._rng)[0])
        full = None
        if self.full:
            full = chances.tolist()
        return place, float(chances[place]), full

    def reward(self, decision_id: str, value: float) -> None:
        """Log the reward of a decision.

        Args:
            decision_id: what `decide` returned, in this process or another one.
            value: the reward, within the range of the log.

        Raises:
            UsageError: without a log, for what is not an id, for a reward outside of the range, and
                after `close`.
            FileError: if it cannot be logged.
        """
        if self.log is None:
            raise UsageError(f"this server has no log; make it with {argument('log', '...')}")
        self.log.rewards([self.reward_row(decision_id, value)])

    def reward_row(self, decision_id: str, value: float) -> dict[str, Any]:
        """Return the row of a reward for `LogWriter.rewards`, checked."""
        self._check_open()
        check_kind("decision_id", decision_id, str)
        if not _DECISION_ID.fullmatch(decision_id):
            raise UsageError(
                f"{argument('decision_id')} is {shown(decision_id)}, expected the 32 hexadecimal "
                "digits in lower case that decide returned; send it unchanged"
            )
        check_finite("value", value)
        low, high = self.log.reward_range if self.log is not None else (-np.inf, np.inf)
        if not low <= value <= high:
            raise UsageError(
                f"{argument('value')} is {value!r}, expected a reward in [{low:g}, {high:g}]"
            )
        return {"decision_id": decision_id, "time": _now(), "reward": float(value)}

    def close(self) -> None:
        """Finish the log: its open files become Parquet. Nothing is decided afterwards."""
        self.closed = True
        if self.log is not None:
            self.log.close()

    def __enter__(self) -> Self:
        """Return the server; `close` is called at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Finish the log."""
        self.close()


def _now() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000


def served_policy(policy: Policy | str | PathLike[str], uncertified: bool) -> Policy:
    """Return the policy that is given itself or by its file, if it may be served.

    Args:
        policy: the policy, or the path of its file.
        uncertified: whether it needs no certificate; else its file must have one.

    Raises:
        UsageError: if it has no certificate and `uncertified` is False, or cannot act.

    >>> from piwo.policies import Uniform
    >>> served_policy(Uniform(["a", "b"]), uncertified=True)
    Uniform(2 actions)
    """
    if isinstance(policy, SlatePolicy):
        raise UsageError(_SLATES)
    if isinstance(policy, Policy):
        saved = SavedPolicy(policy)
    else:
        if Path(policy).is_file() and is_slate_file(policy):
            raise UsageError(f"{without_secrets(policy)!r}: {_SLATES}")
        saved = load_with_metadata(policy)
    found = saved.policy
    check_kind("policy", found, Policy, " of piwo.policies")
    if not (uncertified or _is_certified(saved)):
        raise UsageError(
            "the policy has no certificate that passes a gate; pass "
            f"{argument('uncertified', value=True)} to serve it nevertheless"
        )
    if found.rows is not None or not found.gives_full_distribution or found.listed is None:
        raise UsageError(
            f"a {found.kind} policy knows only the rows of a log and cannot act on new contexts"
        )
    return found


def _is_certified(saved: SavedPolicy) -> bool:
    """Whether the certificate in the file passes a gate: one of a part is not enough."""
    record = record_in(saved.metadata, "certificate")
    return bool(record) and not Certificate.from_dict(record).refusals


def file_state(path: Path) -> FileState:
    """Return what changes when a file is replaced; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def features_of(policy: Policy) -> Features:
    """Return the context columns of a policy; x0, x1, ... for one over plain matrices.

    Raises:
        UsageError: if the number of columns is not known.

    >>> from piwo.policies import LinearGreedy
    >>> features_of(LinearGreedy([[1.0], [2.0]], [0.0, 0.0], ["a", "b"])).names
    ('x0',)
    """
    if not policy.needs_context:
        return Features(())
    if policy.features is not None:
        return policy.features
    if policy.width is None:
        raise UsageError(
            f"this {policy.kind} policy takes any number of context columns, which cannot be "
            f"logged; make it with {argument('features', '...')}"
        )
    return Features.numeric(policy.width)


def _eligible(labels: Sequence[Label], serving: _Compiled) -> Eligible:
    """Return the eligible actions of one row, as `eligible_lists` does."""
    if isinstance(labels, str | Mapping) or not isinstance(labels, Sequence):
        raise DataError(f"{argument('eligible')} is {shown(labels)}, expected a list of labels")
    found: list[int] = []
    for label in labels:
        code = serving.codes.get(str(label))
        if code is None:
            advice = "leave it out"
            if serving.item_columns is not None:
                advice += f", or give the features of all that may be chosen ({argument('items')})"
            raise DataError(
                f"{argument('eligible')} has {shown(label)}, which is no action of the policy "
                f"({serving.policy.actions.preview()}) and could not be chosen; {advice}"
            )
        found.append(code)
    if not found:
        raise DataError(f"{argument('eligible')} has no label; list at least one")
    if len(set(found)) < len(found):
        raise DataError("an eligible action is listed twice; list each once")
    return Eligible(np.array([0, len(found)], np.int64), np.array(found, np.int32))
