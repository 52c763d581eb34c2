"""Requests: policies and interval methods made ready for a log, their sums, and what these say.

`compare`, `certify` and `regret_certificate` are each one request, one pass over the log, and a
record made from the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from piwo import bounds
from piwo.errors import DataError, warn
from piwo.evaluation.baseline import Baseline, BaselineResult, Difference
from piwo.evaluation.contradiction import RawBounds, contradiction, union_penalty, weight_p
from piwo.evaluation.learning_logger import LearningSeenError
from piwo.evaluation.methods import check_anytime, with_model
from piwo.evaluation.rate_cap import RateCap
from piwo.evaluation.result import PolicyResult, RequestResult
from piwo.evaluation.unsupported import looks_for_certain_rows, unsupported_sums
from piwo.intervals import Evidence, IntervalMethod
from piwo.intervals.deadline import planned_rows
from piwo.intervals.matching import (
    check_named,
    matched,
    may_lack_actions,
    resolve_gamma,
    unknown_actions,
)
from piwo.intervals.point import Estimator, estimator_named
from piwo.intervals.provenance import Overlap, overlaps
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.policies import Policy
from piwo.policies.sampling import check_random_state
from piwo.reductions import ActionCount, Joint, PolicyState, PolicySums, Reduction
from piwo.reductions.action_table import CountState
from piwo.reductions.blocks import Partition
from piwo.reductions.listed_mass import CertainRows
from piwo.reductions.rate_cells import RateCells
from piwo.reductions.repeats import Repeats
from piwo.reductions.shared_policy import SharedPolicy
from piwo.reductions.unsupported import UnsupportedMass
from piwo.scores import IW, Score

__all__ = ["ErrorBudget", "Request", "policy_words"]


@dataclass(frozen=True)
class ErrorBudget:
    """How delta is spent on the policies of a request.

    Formula: the bounds of policy k hold at log(1/delta) + paid(k). paid(k) is log N for N policies,
    log |Pi| for a declared class, and -log(share) if shares of delta were fixed.

    >>> round(ErrorBudget(0.05, union=math.log(2)).log_inv_delta("a"), 4) == round(
    ...     math.log(2 / 0.05), 4
    ... )
    True
    """

    delta: float
    union: float = 0.0
    """What each policy pays besides log(1/delta): log N, log |Pi|, or a divergence."""
    count: int = 1
    """How many two-sided intervals hold together, each at delta / count."""
    shares: Mapping[Any, float] | None = None
    """key -> share of delta; None: all policies pay `union`."""
    part: float = 1.0
    """The part of delta that one call of a series may spend; `union` and `shares` know of it."""

    def paid(self, key: Any) -> float:
        """Return what the bounds of a policy pay besides log(1/delta)."""
        if self.shares is None or key not in self.shares:
            return self.union
        return -math.log(self.shares[key])

    def log_inv_delta(self, key: Any) -> float:
        """Return log(1/delta) of one bound of a policy."""
        return bounds.log_inv_delta(self.delta, log_class_size=self.paid(key))

    def test_penalty(self, key: Any, others: int) -> float:
        """Return what the test of the propensities pays by the weights of one policy.

        Args:
            key: of the policy.
            others: how many policies are tested besides those that bounds are given for.
        """
        # the others share what this call of a series may spend
        spent = math.log(self.part)
        return union_penalty(self.paid(key) + spent, others) - spent


@dataclass(frozen=True)
class Request:
    """Policies, methods and the budget of errors, settled and ready for the log.

    `sums` is what the pass over the log must compute, `finish` what its states say. To sum
    something else in the same pass: `reduce(request.log, Joint((request.sums, other)))`.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> request = Request.of(
    ...     log,
    ...     {"a": piwo.policies.Constant("a", log.actions)},
    ...     method=piwo.intervals.interval_named("mixture"),
    ... )
    >>> found = request.finish(piwo.reductions.reduce(request.log, request.sums))
    >>> found.policies["a"].evidence.estimate.value, found.contradicted
    (1.0, None)
    """

    log: Log
    policies: Mapping[Any, Policy]
    """key -> policy over the log's action list."""
    methods: Mapping[Any, IntervalMethod]
    """key -> interval method, settled for the policy."""
    budget: ErrorBudget
    estimator: Estimator
    score: Score = field(default_factory=IW)
    """Whose credits are summed."""
    baseline: Baseline | None = None
    """What policies are compared with; None: the logging policy."""
    horizon: bounds.Horizon = None
    random_state: Any = None
    itself: frozenset[Any] = frozenset()
    """Keys of the policies that are what all are compared with: no better than itself, exactly."""
    one_sided: bool = False
    """Lower bounds alone, each with all of its delta, as certificates state them."""
    overlaps: Mapping[Any, Overlap] = field(default_factory=dict)
    """key -> whether the policy, or the baseline by its own key, was learned from these rows."""
    whole_context: bool = False
    """Whether the policies read all columns of the log's context, or more."""
    partition: Partition | None = None
    """Into blocks that are bet on one after the other; None: bets are on all rows at once."""
    rate_cap: RateCap | None = None
    """A declared cap on mean rewards, for the upper ends; None: none is."""
    detects_learning: bool = False
    """Whether `finish` raises `LearningSeenError` if the rows show that a logger learned of which
    nothing is declared."""
    first_look: bool = True
    """Whether copies of rows, propensities that contradict a declared logger, and actions that the
    list may lack are looked for; False if another request on these rows looks."""

    @classmethod
    def of(
        cls,
        log: Log,
        policies: Mapping[Any, Any],
        *,
        method: IntervalMethod,
        estimator: Estimator | None = None,
        gamma: float | str = "auto",
        q: Any = None,
        baseline: Any = None,
        delta: float = 0.05,
        propensity_factor: float = 1.0,
        sensitivity: float = 1.0,
        horizon: bounds.Horizon = None,
        random_state: Any = None,
        one_sided: bool = False,
        provenance: bool = True,
        rate_cap: float | None = None,
        detects_learning: bool = False,
    ) -> Self:
        """Return the request, checked; delta is shared equally by the policies that have bounds.

        A policy that was learned from these rows has none, and pays for none.

        Args:
            log: the logged decisions.
            policies: key -> policy, or what `piwo.evaluate` takes in place of one.
            method: the interval method that was asked for.
            estimator: the point estimate; None: importance weighting.
            gamma: see `piwo.evaluate`.
            q: see `piwo.evaluate`.
            baseline: see `piwo.compare`.
            delta: chance of error of all bounds together.
            propensity_factor: see `piwo.evaluate`.
            sensitivity: see `piwo.evaluate`.
            horizon: see `piwo.evaluate`.
            random_state: seed of the bootstrap.
            one_sided: see `Request.one_sided`.
            provenance: whether to ask what policies were learned from; False for policies that are
                of a class declared beforehand, or were made without these rows for certain.
            rate_cap: see `piwo.evaluate`.
            detects_learning: see `Request.detects_learning`.

        Raises:
            DataError: for policies that do not fit the log.
            UsageError: for arguments out of range, and those that do not go together.
        """
        check_named(log, policies)
        log.require_unique_keys()
        if estimator is None:
            estimator = estimator_named("iw")
        base = Baseline.of(log, policies, baseline)
        given = dict(policies)
        if base is not None:
            given[base.key] = base.policy
        ready_log, ready = matched(log, given)
        bounds.check_horizon(horizon)
        bounds.log_inv_delta(delta)
        check_random_state(random_state)
        if not estimator.smoothed and gamma != "auto":
            resolve_gamma(gamma, 1, delta)  # it is not used, but must be a number all the same
            warn(f"{argument('gamma')} is not used: the estimator {estimator.name} has none")
        if base is not None:
            base = replace(base, policy=ready.pop(base.key))
        ready_log = ready_log.with_propensity_error(propensity_factor, sensitivity)
        blocks = method.partition(ready_log, horizon)
        methods = {key: method.settled(ready_log, policy, blocks) for key, policy in ready.items()}
        if q is not None:
            methods = with_model(methods, method, q, ready_log, ready, log)
        if horizon is not None and not one_sided:
            for one in methods.values():
                check_anytime(one, gamma, horizon)
        score: Score = IW()
        if estimator.smoothed:
            planned = len(ready_log)
            if isinstance(horizon, int):
                planned = horizon
            score = estimator.score(resolve_gamma(gamma, planned, delta))
        known = overlaps(log, given) if provenance else {}
        # policies that may have bounds pay for each other
        fair = [key for key in ready if key not in known or not known[key].certain]
        count = max(1, len(fair))
        return cls(
            itself=_itself(log, policies, base),
            log=ready_log,
            policies=ready,
            methods=methods,
            budget=ErrorBudget(delta, union=math.log(count), count=count),
            estimator=estimator.on(ready_log.origin),
            score=score,
            baseline=base,
            horizon=horizon,
            random_state=random_state,
            one_sided=one_sided,
            overlaps=known,
            partition=blocks,
            rate_cap=RateCap.declared(rate_cap, ready_log, methods.values()),
            detects_learning=detects_learning,
            whole_context=set(log.columns.context) <= set(ready_log.columns.context),
        )

    @property
    def bounded(self) -> bool:
        """Whether rewards have an upper end, so that losses exist."""
        return math.isfinite(self.log.reward_range[1])

    @property
    def sums(self) -> Joint:
        """What must be summed over the log: of policies, of the baseline itself, of actions."""
        policies = tuple(self._policy_sums(key) for key in self.policies)
        baseline: tuple[PolicySums, ...] = ()
        counts: tuple[Reduction[Any], ...] = ()
        if self.baseline is not None:
            baseline = self.baseline.sums(self.log)
        if self._counts_actions:
            counts = (ActionCount(len(self.log.actions)),)
        if looks_for_certain_rows(self.log):
            counts = (*counts, CertainRows())
        copies: tuple[Repeats, ...] = ()
        if self._looks_for_copies:
            copies = (Repeats("rows"),)
        changes: tuple[Repeats, ...] = ()
        if self.looks_at_logger:
            changes = (Repeats("propensities"),)
        parts = (Joint(policies), Joint(baseline), Joint(counts), Joint(copies), Joint(changes))
        return Joint(parts)

    @property
    def _reads_context(self) -> bool:
        reads = any(policy.needs_context for policy in self.policies.values())
        return reads and self.log.has_context

    @property
    def _looks_for_copies(self) -> bool:
        """Whether copies of rows are looked for: if contexts are read, and no key has shown it."""
        columns = self.log.columns
        may_repeat = columns.key is None and columns.unit is None
        return self.first_look and self._reads_context and may_repeat

    @property
    def looks_at_logger(self) -> bool:
        """Whether propensities of equal contexts are compared.

        They are if they are said to be equal, or if nothing is declared and a method assumes it.
        Policies that read only some columns of the context do not show which contexts are equal.
        """
        log = self.log
        asked = self.first_look and log.logger == "fixed"
        if log.logger is None and self.detects_learning:
            asked = any(method.assumes_fixed_logger for method in self.methods.values())
        shown = log.propensities_are_logged and self.whole_context and self._reads_context
        return asked and shown

    @property
    def _counts_actions(self) -> bool:
        """Whether actions are counted: unnecessary if every action of the list was taken."""
        played = list(self.policies.values())
        if self.baseline is not None:
            played.append(self.baseline.policy)
        # Some that are eligible may never have been taken.
        listed = self.log.declared_actions is not None or self.log.columns.eligible is not None
        return listed or any(policy.depends_on_observed_actions for policy in played)

    def _policy_sums(self, key: Any) -> SharedPolicy:
        """Return what must be summed of one policy, and last of it and the baseline."""
        policy, mass = self.policies[key], self._unsupported_sums(key)
        difference = self._difference(key)
        credit = PolicySums(
            policy,
            self.score,
            bounded=self.bounded,
            origin=self.log.origin,
            partition=self.partition,
        )
        own = self.methods[key].sums(self.log, policy, self.partition)
        if self.rate_cap is not None:
            own = (*own, RateCells(policy))
        if difference is not None:
            own = (*own, difference.sums)
        return SharedPolicy((credit, *mass, *own), policy)

    def _unsupported_sums(self, key: Any) -> tuple[UnsupportedMass, ...]:
        """Return the sums of what the logger could not have done, if the log shows that."""
        return unsupported_sums(self.log, self.policies[key])

    def _difference(self, key: Any) -> Difference | None:
        """Return the difference from the baseline; None if that is the logging policy."""
        if self.baseline is None:
            return None
        method = self.methods[key]
        return Difference.of(self.policies[key], self.baseline.policy, method, self.partition)

    @contextmanager
    def naming_policies(self) -> Iterator[None]:
        """Name the policy in errors about the output of a user's class, which name the class."""
        try:
            yield
        except DataError as wrong:
            named = dict(self.policies)
            if self.baseline is not None:
                named[self.baseline.key] = self.baseline.policy
            for key, policy in named.items():
                # `piwo.evaluate` calls a policy by its class if its user gives no name
                if key != policy.called and _holds(policy, wrong.policy):
                    raise DataError(f"{policy_words(key)}: {wrong.args[0]}") from wrong
            raise

    def _counted(self, states: Sequence[Any]) -> tuple[CountState, int]:
        """Return rows by action, empty if not counted, and the number of `CertainRows`."""
        counted, certain = CountState(np.empty(0), np.empty(0)), 0
        if self._counts_actions:
            counted = states[0]
        if looks_for_certain_rows(self.log):
            certain = states[-1].rows
        return counted, certain

    def finish(
        self, states: tuple[Any, ...], raw: Mapping[Any, RawBounds] | None = None
    ) -> RequestResult:
        """Return what the states of `sums` say.

        Args:
            states: of `sums`.
            raw: key -> bounds that were computed elsewhere; None: those of the methods.

        Raises:
            LearningSeenError: see `Request.detects_learning`.
        """
        each, base_states, counts, copies, changes = states
        changed = self.log.logger_changed
        if changes:
            changed = changes[0].changed
            if changed is not None and self.log.logger is None:
                raise LearningSeenError(changed)
        own: dict[Any, tuple[Any, ...]] = dict(zip(self.policies, each, strict=True))
        counted, certain = self._counted(counts)
        once = int((counted.count == 1).sum())
        if self.one_sided or not self.first_look or not may_lack_actions(self.log):
            # certificates ask this themselves
            once = 0
        baseline = self._baseline_result(own, base_states, once)
        given: Mapping[Any, RawBounds | None] = dict.fromkeys(own)
        if raw is not None:
            given = raw
        found = {}
        for key, some in own.items():
            found[key] = self._policy_result(key, some, once, baseline, given[key])
        # an action that no row lists is played nowhere
        never = np.flatnonzero((counted.count == 0) & (counted.eligible > 0))
        result = RequestResult(found, baseline, never_logged=never, certain_rows=certain)
        tested = self.p_values(result)
        why_not = contradiction(tested, result.claimed, self.log.reward_range)
        copied = None
        if copies:
            copied = copies[0].copied
        for key, one in found.items():
            found[key] = replace(
                one,
                own_p=tested.get(key),
                contradicted=why_not,
                copied=copied,
                logger_changed=changed,
                never_taken=len(never),
            )
            if why_not is None and one.usable:
                found[key] = self._capped(key, found[key], own[key])
        return replace(result, policies=found, p_values=tested, contradicted=why_not)

    def _capped(self, key: Any, one: PolicyResult, states: tuple[Any, ...]) -> PolicyResult:
        """Return a result with the upper end that the declared cap on rates allows, if one is."""
        whole = one.raw.interval
        if self.rate_cap is None or whole.upper is None:
            return one
        # the difference from a baseline comes last
        state = states[-1]
        if self.baseline is not None:
            state = states[-2]
        interval = self.rate_cap.applied(whole, state, one.method, one.evidence, policy_words(key))
        return replace(one, raw=replace(one.raw, interval=interval), uncapped=whole)

    def p_values(
        self, result: RequestResult, others: Mapping[Any, PolicyState] | None = None
    ) -> dict[Any, float]:
        """Return key -> p-value of "the propensities are not too small" by each policy's weights.

        Args:
            result: of `finish`.
            others: key -> state of policies that are tested besides those of the request.
        """
        more, base = dict(others or {}), result.baseline
        if base is not None and base.usable and not base.baseline.twins:
            more[base.baseline.key] = base.state
        states = {key: one.evidence.state for key, one in result.policies.items() if one.usable}
        return {
            key: weight_p(
                state, self.budget.test_penalty(key, len(more)), planned_rows(self.horizon)
            )
            for key, state in (states | more).items()
        }

    def _baseline_result(
        self, own: Mapping[Any, tuple[Any, ...]], states: tuple[Any, ...], once: int
    ) -> BaselineResult | None:
        base = self.baseline
        if base is None:
            return None
        # a baseline that is one of the policies is summed once, with that policy
        if base.twins:
            state = own[base.twins[0]][0]
        else:
            state = states[0]
        return BaselineResult(base, state, self._obstacle(base.key, base.policy, once))

    def _policy_result(
        self,
        key: Any,
        states: tuple[Any, ...],
        once: int,
        baseline: BaselineResult | None,
        raw: RawBounds | None,
    ) -> PolicyResult:
        """Return what the formulas say of one policy, from the states of its sums."""
        method, obstacle = self.methods[key], self._obstacle(key, self.policies[key], once)
        evidence = self._evidence(key, states)
        usable, log_e_better, note = obstacle is None, None, None
        if key in self.overlaps:
            note = self.overlaps[key].note
        if raw is None:
            gain = None
            difference = self._difference(key)
            if difference is not None and baseline is not None:
                if usable and baseline.usable:
                    gain = difference.lower(states[-1], evidence.log_inv_delta, self.horizon)
                    log_e_better = difference.log_e_value(states[-1], evidence)
            elif usable and self.bounded:
                gain = method.improvement(evidence)
                log_e_better = method.log_e_better(evidence)
            if gain is not None and key in self.itself:
                gain = log_e_better = 0.0
            raw = RawBounds(self._raw_interval(key, evidence, usable), gain)
        unsupported = None
        if self._unsupported_sums(key):
            unsupported = states[1].mean
        return PolicyResult(
            unsupported=unsupported,
            method=method,
            evidence=evidence,
            obstacle=obstacle,
            raw=raw,
            log_e_better=log_e_better,
            baseline=baseline,
            provenance=note,
            itself=key in self.itself,
        )

    def _raw_interval(self, key: Any, evidence: Evidence, usable: bool) -> bounds.Interval:
        method = self.methods[key]
        if self.one_sided:
            return bounds.Interval(method.value_lower(evidence), None)
        # A policy that was learned from these rows, or rows chosen by their rewards, have another
        # mean; approximations do not help.
        biased = self.overlaps.get(key, Overlap()).certain or bool(self.log.chosen_by)
        if usable or (method.guarantee == "asymptotic" and not biased):
            return method.finish(evidence)
        return bounds.Interval(None, None)

    def _evidence(self, key: Any, states: tuple[Any, ...]) -> Evidence:
        state, *own = states
        if self._unsupported_sums(key):
            own = own[1:]
        if self.baseline is not None:
            own = own[:-1]
        if self.rate_cap is not None:
            own = own[:-1]
        return Evidence(
            log=self.log,
            policy=self.policies[key],
            score=self.score,
            estimator=self.estimator,
            estimate=self.estimator.finish(state.moments),
            state=state,
            own=tuple(own),
            delta=self.budget.delta / self.budget.count,
            log_inv_delta=self.budget.log_inv_delta(key),
            random_state=self.random_state,
            horizon=self.horizon,
            delta_of_all=self.budget.delta,
        )

    def _obstacle(self, key: Any, policy: Policy, once: int) -> Note | None:
        """Return why no finite-sample statement can be made of a policy; None if one can.

        Args:
            key: of the policy.
            policy: over the log's action list.
            once: how many actions of the list were logged exactly once.
        """
        overlap = self.overlaps.get(key, Overlap())
        if overlap.certain:
            return _in_sample(overlap, baseline=key not in self.policies)
        why = self.log.unprovable
        if why is not None:
            return Note(f"{why.template}: no finite-sample interval", why.kind)
        if policy.depends_on_observed_actions and once:
            # a policy that plays whatever was seen is made from the data: E w <= 1 does not hold
            return Note(
                f"{unknown_actions(once, len(self.log.actions))}: no finite-sample interval; "
                f"give the list ({argument('actions', '[...]')})",
                kind="inferred-actions",
            )
        return None


def _holds(policy: Policy, part: object) -> bool:
    """Whether a policy is this one, or made of it, such as an epsilon-greedy version."""
    if policy is part:
        return True
    inside = [one for one in vars(policy).values() if isinstance(one, Policy)]
    inside += policy.parts
    return any(_holds(one, part) for one in inside)


def policy_words(key: Any) -> str:
    """Return what messages call a policy of a request.

    >>> policy_words("new"), policy_words(("the", "baseline"))
    ("policy 'new'", 'the baseline')
    """
    # the key of a baseline is a tuple of words: see `Baseline.key`
    if isinstance(key, tuple):
        return " ".join(map(str, key))
    return f"policy {key!r}"


def _itself(log: Log, policies: Mapping[Any, Any], base: Baseline | None) -> frozenset[Any]:
    """Return the keys of the policies that are the baseline, or the logging policy without one."""
    if base is not None:
        return frozenset(base.twins)
    found = []
    for key, policy in policies.items():
        # the logging policy as such, or as the behavior policy of the log
        if policy is not None and (getattr(policy, "is_logger", False) or policy is log.behavior):
            found.append(key)
    return frozenset(found)


def _in_sample(overlap: Overlap, baseline: bool) -> Note:
    """Return the note that a policy, or the baseline, was learned from these rows."""
    if baseline:
        return Note(
            "in-sample: the baseline was learned from part of this log "
            f"({overlap.how}), so that "
            "nothing is certified better than it; compare them on other rows",
            kind="in-sample-baseline",
        )
    rest = ""
    if overlap.certified:
        rest = "; its certificate rests on held-out rows alone"
    return Note(
        f"in-sample: it was learned from part of this log ({overlap.how}), so that this value "
        f"may be too high, and no bound is given{rest}",
        kind="in-sample",
    )
