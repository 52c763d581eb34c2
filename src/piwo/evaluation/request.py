"""What `compare` was asked: the sums that answer it, and what they say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from piwo import bounds
from piwo.checks import check_finite
from piwo.errors import UsageError
from piwo.evaluation.baseline import Baseline, Difference
from piwo.evaluation.contradiction import contradiction, union_penalty, weight_p
from piwo.evaluation.measured import Against, Measured, obstacle
from piwo.evaluation.notes import notes_of
from piwo.evaluation.predicted_baselines import with_predictions
from piwo.evaluation.record import Evaluation
from piwo.evaluation.support import unsupported_masses
from piwo.intervals import Evidence, IntervalMethod, interval_named
from piwo.intervals.point import Estimator
from piwo.intervals.prepare import check_named, prepare, resolve_gamma
from piwo.intervals.weight_sums import effective_size, weight_z
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy
from piwo.policies.sampling import check_random_state
from piwo.reductions import ActionCount, Joint, PolicyState, PolicySums
from piwo.reductions.shared_policy import SharedPolicy
from piwo.scores import IW, Score

__all__ = ["Comparing"]


@dataclass(frozen=True)
class Comparing:
    """What was asked, settled and ready for the log. See `piwo.evaluate` for what each means.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> asked = Comparing.of(log, {"a": piwo.policies.Constant("a", log.actions)})
    >>> asked.finish(piwo.reductions.reduce(asked.log, asked.sums))["a"].value
    1.0
    """

    log: Log
    policies: Mapping[str, Policy]
    """name -> policy over the log's action list."""
    methods: Mapping[str, IntervalMethod]
    """name -> method, settled for the policy."""
    estimator: Estimator
    score: Score
    """Whose credits are summed."""
    delta: float
    random_state: Any
    horizon: bounds.Horizon
    threshold: float | None
    """On the unit scale."""
    baseline: Baseline | None
    """None: the logging policy."""

    @classmethod
    def of(
        cls,
        log: Log,
        policies: Mapping[str, Any],
        *,
        estimator: str | None = None,
        gamma: float | str = "auto",
        interval: str = "auto",
        q: Any = None,
        baseline: Any = None,
        delta: float = 0.05,
        propensity_factor: float = 1.0,
        sensitivity: float = 1.0,
        horizon: bounds.Horizon = None,
        threshold: float | None = None,
        random_state: Any = 0,
    ) -> Self:
        """Return what is asked, checked; the arguments are those of `piwo.compare`."""
        check_named(log, policies)
        method = interval_named(interval)
        chosen = method.estimator(estimator)
        given, base = log, Baseline.of(log, policies, baseline)
        log, ready = prepare(log, policies if base is None else {**policies, base.key: base.policy})
        bounds.check_horizon(horizon)
        bounds.log_inv_delta(delta)
        check_random_state(random_state)
        if not chosen.smoothed and gamma != "auto":
            resolve_gamma(gamma, 1, delta)  # not used, but what is no number is a mistake
        unit = None if threshold is None else _unit(threshold, log)
        base = None if base is None else replace(base, policy=ready.pop(base.key))
        log = log.with_propensity_error(propensity_factor, sensitivity)
        methods = {name: method.settled(log, policy) for name, policy in ready.items()}
        methods = with_predictions(methods, q, log, ready, asked=method, given=given)
        for one in methods.values() if horizon is not None else ():
            _check_anytime(one, gamma, horizon)
        score: Score = IW()
        if chosen.smoothed:
            planned = horizon if isinstance(horizon, int) else len(log)
            score = chosen.score(resolve_gamma(gamma, planned, delta))
        return cls(
            log,
            ready,
            methods,
            chosen.on(log.origin),
            score,
            delta,
            random_state,
            horizon,
            unit,
            base,
        )

    @property
    def sums(self) -> Joint:
        """What must be summed over the log: of the policies, of the baseline itself, and of the actions."""
        base = self.baseline
        played = (*self.policies.values(), *(() if base is None else (base.policy,)))
        # else every action was seen, and none is asked for
        counted = self.log.declared_actions is not None or any(
            policy.depends_on_observed_actions for policy in played
        )
        return Joint(
            (
                Joint(tuple(self._sums(name) for name in self.policies)),
                Joint(() if base is None else base.sums),
                Joint((ActionCount(len(self.log.actions)),) if counted else ()),
            )
        )

    def finish(self, states: tuple[Any, ...]) -> dict[str, Evaluation]:
        """Return the evaluations, from the states of `sums`."""
        each, others, counted = states
        own = dict(zip(self.policies, each, strict=True))
        count = counted[0].count if counted else np.empty(0)
        once, base, against = int((count == 1).sum()), self.baseline, None
        if base is not None:
            state = own[base.twins[0]][0] if base.twins else others[0]
            against = Against(base, state, obstacle(self.log, base.policy, once))
        found = {name: self._measured(name, states, once, against) for name, states in own.items()}
        tested = self._tested(found, against)
        claims = {name: one.claim for name, one in found.items() if one.obstacle is None}
        why_not = contradiction(tested, claims, self.log.reward_range)
        masses = unsupported_masses(self.log, self.policies, np.flatnonzero(count == 0))
        return {
            name: self._evaluation(
                name,
                replace(one, own_p=tested.get(name), contradicted=why_not),
                masses[name],
                min(tested.values(), default=None),
            )
            for name, one in found.items()
        }

    def _sums(self, name: str) -> SharedPolicy:
        """Return what must be summed of one policy, and last of it and the baseline."""
        policy, difference = self.policies[name], self._difference(name)
        credit = PolicySums(policy, self.score, bounded=math.isfinite(self.log.reward_range[1]))
        paired = () if difference is None else (difference.sums,)
        return SharedPolicy(policy, (credit, *self.methods[name].sums(self.log, policy), *paired))

    def _difference(self, name: str) -> Difference | None:
        """Return the difference of a policy from the baseline; None where that is the logging policy."""
        if self.baseline is None:
            return None
        return Difference.of(self.policies[name], self.baseline.policy, self.methods[name])

    def _measured(
        self, name: str, states: tuple[Any, ...], once: int, against: Against | None
    ) -> Measured:
        """Return what the formulas say of one policy, from the states of its sums."""
        policy, difference, (state, *more) = self.policies[name], self._difference(name), states
        pair = None if difference is None else (difference, more.pop())
        evidence = Evidence(
            log=self.log,
            policy=policy,
            score=self.score,
            estimator=self.estimator,
            estimate=self.estimator.finish(state.moments),
            state=state,
            own=tuple(more),
            delta=self.delta / len(self.policies),
            log_inv_delta=bounds.log_inv_delta(self.delta) + math.log(len(self.policies)),
            random_state=self.random_state,
            horizon=self.horizon,
        )
        made = Measured.of(
            self.methods[name], evidence, obstacle(self.log, policy, once), pair, against
        )
        itself = policy.is_logger if self.baseline is None else name in self.baseline.twins
        # better than itself by exactly 0
        return (
            replace(made, gain=0.0, log_e_better=0.0) if itself and made.gain is not None else made
        )

    def _tested(self, found: Mapping[str, Measured], against: Against | None) -> dict[Any, float]:
        """Return the p-value by the weights of every policy, the baseline's too, which pay for each other."""
        states: dict[Any, PolicyState] = {
            x: one.evidence.state for x, one in found.items() if one.obstacle is None
        }
        paid = math.log(len(self.policies))
        if against is not None and against.obstacle is None and not against.baseline.twins:
            states[against.baseline.key], paid = against.state, union_penalty(paid, 1)
        return {key: weight_p(state, paid) for key, state in states.items()}

    def _evaluation(
        self, name: str, found: Measured, mass: float | None, least_p: float | None
    ) -> Evaluation:
        """Return what is told of one policy, in the reward's own unit.

        Args:
            name: of the policy.
            found: what the formulas say.
            mass: what the policy gives to actions never logged.
            least_p: the smallest p-value of all policies.
        """
        log, evidence, shown, against = self.log, found.evidence, found.shown, found.against
        sums, bets, estimate = evidence.state.moments, evidence.state.bets, evidence.estimate
        missing = bounds.missing_mass_upper(
            bets.weight, sums.rows, evidence.log_inv_delta, horizon=self.horizon
        )
        believed, exact, above = found.why_not is None, found.obstacle is None, None
        if believed and self.threshold is not None:
            above = bounds.log_e_value(bets.value, sums.rows, self.threshold)
        made = Evaluation(
            name=name,
            estimator=self.estimator.name,
            gamma=self.score.gamma_equivalent,
            value=_in_units(estimate.value, log),
            standard_error=None
            if estimate.standard_error is None
            else log.span * estimate.standard_error,
            lower=_in_units(shown.lower, log),
            upper=_in_units(shown.upper, log),
            lower_raw=_in_units(found.raw.lower, log),
            upper_raw=_in_units(found.raw.upper, log),
            interval=found.method.name,
            guarantee=found.guarantee,
            delta=self.delta,
            simultaneous=len(self.policies),
            rows=sums.rows,
            mean_weight=sums.w / sums.total if sums.total else 0.0,
            mean_weight_z=weight_z(sums.w, sums.w2, sums.rows) if exact else None,
            ess=effective_size(sums.w, sums.w2),
            ess_used=effective_size(sums.u, sums.u2),
            changed_rows=sums.changed,
            max_weight=sums.max_weight,
            unsupported_mass=mass,
            missing_mass_upper=min(1.0, max(0.0, missing)) if believed else None,
            logging_value=log.value(sums.reward / sums.total),
            improvement_lower=log.span * max(-1.0, found.gain)
            if believed and found.gain is not None
            else None,
            propensity_p=least_p if exact else None,
            reward_range=log.reward_range,
            cost=log.columns.cost,
            horizon=self.horizon,
            log_e_better=found.log_e_better if believed else None,
            log_e_above=above,
            baseline=None if against is None else against.baseline.name,
            baseline_value=None if against is None else against.baseline.value(against.state, log),
            no_interval=found.no_interval,
        )
        return replace(made, notes=notes_of(made, found))


def _unit(threshold: Any, log: Log) -> float:
    """Return a threshold on the unit scale."""
    check_finite("threshold", threshold)
    low, high = log.reward_range
    unit = (float(threshold) - low) / log.span
    if unit > 1.0 and math.isfinite(high):
        raise UsageError(
            f"{argument('threshold')} is {threshold!r}, expected a value of at most {high:g}, the highest reward"
        )
    if not 0.0 <= unit < math.inf:
        raise UsageError(
            f"{argument('threshold')} is {threshold!r}, expected a value of at least {log.reward_range[0]:g}, "
            "the lowest reward"
        )
    return unit


def _check_anytime(method: IntervalMethod, gamma: float | str, horizon: bounds.Horizon) -> None:
    if not method.anytime:
        raise UsageError(
            f"{method.name} intervals hold at one n at most, and a horizon asks for all; use "
            f"{argument('interval', 'mixture')}"
        )
    if method.fixed_bet and gamma == "auto" and not isinstance(horizon, int):
        raise UsageError(
            f"{argument('gamma')} is 'auto', which follows the number of rows, and {argument('horizon')} is {horizon!r}; "
            "give gamma as a number, or the horizon as a number of rows"
        )


def _in_units(number: float | None, log: Log) -> float | None:
    """Return a number of the unit scale in the reward's own unit; None where it is none."""
    return None if number is None or not math.isfinite(number) else float(log.value(number))
