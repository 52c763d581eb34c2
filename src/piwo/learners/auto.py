"""Auto: a pool of learners, and the best policy of those that are certified better, if any is."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

from piwo.certificates.certificate import Certificate
from piwo.certificates.certify import guardrail_results
from piwo.certificates.request import CertificateRequest
from piwo.certificates.terms import check_at_least
from piwo.checks import check_flag, check_positive
from piwo.errors import NothingToLearnError, PiwoWarning, UsageError, warn
from piwo.evaluation.guardrails import (
    Guardrail,
    GuardrailResult,
    guardrails_of,
    share_of_delta,
    shared_note,
)
from piwo.intervals.loggers import check_loggers
from piwo.intervals.point import self_normalized
from piwo.intervals.provenance import learned_from, overlaps
from piwo.learners.guarded_vote import GuardedVote
from piwo.learners.halving import HUGE, better_half
from piwo.learners.learner import SplitLearner, check_certifiable, check_log
from piwo.learners.pool import (
    Candidate,
    candidates,
    default_pool,
    for_full_vectors,
    for_items,
)
from piwo.learners.report import CandidateReport, LearningReport, pool_lines, score_facts
from piwo.learners.schedule import Learned, Schedule
from piwo.learners.split import Split
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.oracles.oracle import check_score
from piwo.policies import Logging, Policy
from piwo.reductions import MomentState
from piwo.reductions.reduce import reduce
from piwo.scores import Score

__all__ = ["FALLBACK", "INCUMBENT", "LOGGING", "Auto", "PoolPoint"]

FALLBACK = "guarded vote"
"""The key of the policy that is returned without proof if nothing is certified."""

LOGGING = "logging"
"""The key of the logging policy among the candidates."""
INCUMBENT = "incumbent"
"""The key of the incumbent, if another policy runs today."""
_STAYS = {LOGGING: "the logging policy", INCUMBENT: "the incumbent"}
_NOT_AGAIN = Note(
    "the policy is the certified one: there was no time to learn it again from all rows",
    kind="unfinished",
)
_REFUSALS_SHOWN = 3
_COLUMNS = {
    "candidate": "candidate",
    "estimate": "estimate",
    "standing": "less its error",
    "improvement_lower": "improvement, at least",
}


@dataclass(frozen=True)
class PoolPoint:
    """One candidate: the policy learned from one part of the log, certified on the other.

    >>> import piwo
    >>> from piwo.learners.pool import Candidate
    >>> one = Candidate("ridge", piwo.oracles.Ridge(), piwo.IX(0.1))
    >>> made = Certificate("held-out", 1.0, 0.9, 0.1, 0.5)
    >>> PoolPoint(one, piwo.policies.Constant("a", ["a"]), made).certificate.certified
    True
    """

    candidate: Candidate | None
    """None: the policy to fall back to."""
    policy: Policy
    certificate: Certificate
    estimate: float | None = None
    """Its self-normalized estimate, in the reward's unit, on all rows that it was not learned
    from: both parts of the log, if both were learned from."""
    standing: float | None = None
    """That estimate less one standard error. The highest among the certified candidates is
    chosen."""


@dataclass(frozen=True)
class _Outcome:
    """One candidate in one direction: learned from one part, certified on the other."""

    candidate: Candidate | None
    policy: Policy
    certificate: Certificate
    moments: MomentState
    learned: bool = True
    """False if the rows had nothing to learn from; the policy is then the fallback."""


@dataclass(eq=False, repr=False)
class Auto(SplitLearner):
    """Learn with a pool of learners: the best policy certified better, or else a cautious one.

    Answers: which policy should run, if it is unknown which learner suits the log? No single one
    always does: methods that ignore the propensities are the best on even and on bad loggers and
    harmful elsewhere, weighted ones the reverse. The pool has both kinds, linear and boosted; each
    candidate is certified on rows that it never saw. If the log has features of the actions
    (`piwo.read(items=)`), the pool has models of context and item, too, whose policies act on items
    never seen in training; if its actions also change from row to row (`eligible=`), it has those
    alone.

    If none is certified better, the result is the policy of `GuardedVote`, which is cautious but
    not certified: `certificate_.certified` is False. It is the logging policy with `keep="logger"`,
    if actions change from row to row, if no row has a reward above the lowest (nothing can be
    learned then), and if the rows contradict their propensities. With an `incumbent`, improvements
    are measured over it, and the result is the incumbent if none is certified better.

    Formula: every candidate is learned from each part of the log and certified on the other, by the
    paired improvement bound LB_i = LB(E Y_i) - 1, Y_i = w_i R + 1 - R, at log(1/(s_i delta)); the
    shares s_i sum to 1 over both directions. Among the candidates with LB_i > 0 in either direction
    that keep to `at_least` and `guardrail`, the choice is argmax_i V_i - SE_i, the self-normalized
    estimate V_i = sum w_i R / sum w_i less its standard error over all rows, each weighted by the
    policy that did not see it.
    Source: docs/quality.md; bound: docs/theory.md, section "Improvement over the logging policy".

    What is proved: with probability 1 - delta the chosen policy, `certified_policy_`, improves on
    the logging policy by at least the bound in its certificate, whatever rule chose it: all bounds
    are valid jointly. Learning the policy again from all rows (`refit=True`) usually helps, but
    nothing is proved for the new policy, since no row is left that it did not see. With
    `refit=False` the policy returned is the certified one.

    Args:
        pool: what to learn with, instead of the default pool: scikit-learn classifiers, oracles, or
            `Candidate`s.
        extra: likewise, in addition to the pool. Every candidate makes all bounds a little wider.
        incumbent: the policy to improve on and to fall back to, made without this log; None: the
            logging policy.
        refit: return the chosen candidate's policy learned from all rows, instead of the certified
            one.
        exchange: learn from the held-out part too, and certify that on the other part: half of
            delta is spent in each direction.
        keep: "logger": keep the logging policy if nothing is certified better than it; None: learn
            a policy without proof then.
        seconds: the time for `fit`, kept within about 20 % from the second candidate on; None: as
            long as it takes. Candidates are learned in the order of the pool, and one that does not
            finish is left out, so the result depends on the speed of the machine. The certificates
            are as valid: the shares of delta are those of the whole pool.
        at_least: the least value that the chosen policy must be certified to have, as in
            `piwo.certify`. A candidate that misses it is not chosen. Nothing unproved is returned
            then, nor with a guardrail: if no candidate is certified to keep to what was asked, the
            logging policy stays.
        guardrail: a limit on the mean of another outcome, or several of them, as in `piwo.certify`:
            a candidate that is certified to be beyond one is not chosen. One that is "not certified
            harmless" may be. delta is shared equally: the improvements, and the answers to each
            guardrail, each have delta / (1 + number of guardrails).
        delta: joint error probability of all certificates.
        holdout: fraction of the rows that is held out.
        random_state: seed of the split and of the boosted trees, a whole number.
        tail: hold out the last rows of the log, as `SplitLearner` does. Nothing is exchanged then:
            the certified rows must come after the training rows.

    Attributes:
        policy_: the policy to run.
        certified_policy_: the policy of `certificate_`, learned from one part of the log.
        certificate_: its certificate; if `policy_` is another one, `about` says so, and `certified`
            is None.
        refitted_: whether `policy_` was learned from all rows, and is not the certified one.
        chosen_: its key in `path_`; "guarded vote" for a policy without proof, "logging" for the
            logging policy (`log.behavior` if that is a policy), "incumbent" for the incumbent.
        score_: the score that it was learned with; None for those, and for candidates without a
            score.
        incumbent_in_sample_: whether the incumbent is known to be learned from these rows: then no
            gain over it is certified, whatever the certificate says, and `fit` warns.
        rule_: how it was chosen, in words.
        path_: name -> `PoolPoint`.
        not_tried_: names of the candidates that were not learned, as the time was up, Ctrl-C was
            pressed, or others did better on a sample of a huge log. After a first Ctrl-C `fit` ends
            with what was learned so far, and nothing is learned again; a second one ends it without
            a result.

    >>> import numpy as np, piwo
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=A, reward=(A == (X[:, 0] > 0)) * 1.0, propensity=np.full(400, 0.5)
    ... )
    >>> learner = Auto([piwo.oracles.Ridge()], refit=False).fit(log)
    >>> learner.policy_.act([[-2.0], [2.0]]).actions.tolist(), learner.certificate_.certified
    ([0, 1], True)
    >>> again = Auto([piwo.oracles.Ridge()]).fit(log).certificate_
    >>> again.certified, again.improves
    (None, True)
    """

    pool: Sequence[Any] | None = None
    extra: Sequence[Any] = ()
    _: KW_ONLY
    incumbent: Policy | None = None
    refit: bool = True
    exchange: bool = True
    keep: Literal["logger"] | None = None
    seconds: float | None = None
    at_least: float | None = None
    guardrail: Any = None

    def fit(self, log: Log) -> Self:
        """Learn with every candidate, and choose.

        Args:
            log: the logged decisions, with context.

        Returns:
            The learner itself, with `policy_` and `certificate_`.

        Raises:
            DataError: for rows that break a rule, or a log that lacks what an oracle needs.
            UsageError: for rewards without an upper end, with which the value of the logging policy
                has no bound, and for arguments that do not go together.
        """
        self._check(log)
        pool = self._pool(log)
        for one in pool:
            one.oracle.fit_for(log)
        fallback, today = _incumbent(log, self.incumbent)
        _check_pool(pool, fallback)
        for one in pool:
            if one.score is not None:
                check_score(one.score)
            check_certifiable(log, one.oracle, "held-out")

        guards = guardrails_of(self.guardrail, log, fallback == INCUMBENT)
        # What is asked of the policy cannot be certified of one without a certificate.
        asked = bool(guards) or self.at_least is not None
        # The members of the vote have one model for each action.
        fixed = log.columns.eligible is None
        falls_back = self.keep is None and fallback == LOGGING and not asked and fixed
        schedule = Schedule(self.seconds, again=self.refit, fallback=falls_back)
        # one direction, or both: each part is learned from, and certifies what the other part
        # learned
        directions = [self._split(log, "held-out")]
        # The past cannot certify what was learned from the future.
        if self.exchange and not directions[0].facts["split"]["tail"]:
            directions.append(directions[0].exchanged())
        parts = [_encoded_for(today, rows.training) for rows in directions]
        with _early_stops_ignored():
            tried = pool
            may_judge = log.features is not None and not log.in_cluster
            if self.seconds is not None and may_judge and len(log) >= HUGE:
                judge = functools.partial(better_half, pool, log, int(self.random_state))
                tried = schedule.promising(pool, judge)
            learned = schedule.learn(tried, parts)
        outcomes = []
        for rows, found in zip(directions, learned, strict=True):
            certified = functools.partial(
                self._outcomes, log, rows, pool, found, fallback, today, 1 / len(directions), guards
            )
            outcomes.append(schedule.finish(certified, f"certifying {len(found)} policies"))
        self.incumbent_in_sample_ = fallback == INCUMBENT and _in_sample(log, today)
        # a contradiction in one direction removes the bounds of both
        decisive = [each for each in outcomes if _contradicted(each)] or outcomes
        self._both = len(decisive) > 1
        self.path_: dict[str, PoolPoint] = {}
        for name in outcomes[0]:
            self.path_[name] = _point(log, [each[name] for each in decisive])
        self.chosen_ = _best(self.path_, fallback)
        best = self.path_[self.chosen_]
        self.rule_ = self._rule(outcomes, fallback, best)
        self._settle(log, best, schedule)
        # Propensities that the rows contradict are not learned with.
        bounded = best.certificate.improvement_lower is not None
        if self.chosen_ == LOGGING and falls_back and bounded:
            # The split has seen whether the logger learned.
            known = replace(log, logger=directions[0].training.logger)
            self._fall_back(known, schedule, f"none of {_count(outcomes)} is certified better")
        self._note(schedule)
        return self

    def _rule(
        self, outcomes: Sequence[Mapping[str, _Outcome]], fallback: str, best: PoolPoint
    ) -> str:
        """Return how the policy was chosen, in words."""
        refused = _refused(self.path_)
        if best.candidate is not None:
            rule = (
                "the highest estimate, less its standard error, of those certified "
                f"better among {_count(outcomes)}"
            )
            if refused:
                rule += f", but for those refused ({refused})"
            return rule
        if refused:
            stays = f"{_STAYS[fallback]} stays"
            return f"all that are certified better are refused ({refused}), so {stays}"
        return _why_none(outcomes, fallback, best.certificate)

    def _check(self, log: Log) -> None:
        """Check the log and the arguments.

        Raises:
            UsageError: see `fit`.
        """
        check_log(log)
        check_flag("refit", self.refit)
        check_flag("exchange", self.exchange)
        if self.keep not in (None, "logger"):
            raise UsageError(f"{argument('keep')} is {self.keep!r:.80}, expected 'logger' or None")
        if self.seconds is not None:
            check_positive("seconds", self.seconds)
        if self.at_least is not None:
            check_at_least(self.at_least, log)
        if not math.isfinite(log.reward_range[1]):
            raise UsageError(
                "the rewards have no upper end, so no improvement can be certified; "
                f"declare {argument('reward_range')}, or use PIWOGrid"
            )

    def _report(self) -> LearningReport:
        made = self.certificate_
        tried = []
        for name, one in self.path_.items():
            figures = {
                "candidate": name,
                "value": one.certificate.value,
                "value_lower": one.certificate.value_lower,
                "improvement_lower": one.certificate.improvement_lower,
                "estimate": one.estimate,
                "standing": one.standing,
            }
            tried.append(CandidateReport(name, one.policy, figures, name == self.chosen_))
        columns = dict(_COLUMNS)
        if self._both:
            columns["estimate"] = "estimate, both parts"
        facts: dict[str, Any] = {"chosen": self.chosen_, "refitted": self.refitted_}
        if self.not_tried_:
            facts["not_tried"] = list(self.not_tried_)
        if self._interrupted:
            facts["interrupted"] = True
        rule = f"  {self.chosen_}: {self.rule_}"
        return LearningReport(
            lines=pool_lines(made, rule, len(self.path_) - 1, both=self._both),
            tried=tuple(tried),
            columns=columns,
            facts=facts,
            in_sample=self.incumbent_in_sample_,
            stays=_STAYS.get(self.chosen_),
        )

    def _outcomes(
        self,
        log: Log,
        rows: Split,
        pool: Sequence[Candidate],
        learned: Learned,
        fallback: str,
        today: Policy,
        share: float,
        guards: Sequence[Guardrail],
    ) -> dict[str, _Outcome]:
        """Certify all policies that were learned in one direction, jointly.

        Args:
            log: all rows.
            rows: the two parts.
            pool: the candidates, including those that were not tried.
            learned: their policies.
            fallback: key of the policy to improve on.
            today: that policy.
            share: of delta, for this direction.
            guards: the limits on other outcomes.
        """
        test = rows.certified_on
        each: dict[str, Candidate | None] = {}
        weights = {fallback: 1.0}
        for one in pool:
            weights[one.label] = one.weight
            if one.label in learned:
                each[one.label] = one
        each[fallback] = None
        # A candidate that learned nothing plays as today.
        policies = {name: learned.get(name) or today for name in each}
        # s_i = share weight_i / sum of weights, over all candidates: which of them were not tried
        # is known only afterwards
        total = sum(weights.values())
        shares = {name: share * weights[name] / total for name in each}
        delta = share_of_delta(self.delta, guards)
        asked = CertificateRequest.of(
            test,
            policies,
            delta=delta,
            baseline=fallback,
            shares=shares,
            facts={**rows.facts, "log_rows": len(log)},
            provenance=False,
        )
        sums = reduce(asked.log, asked.sums)
        made, moments = asked.finish(sums), asked.moments(sums)
        kept: Mapping[str, tuple[GuardrailResult, ...]] = dict.fromkeys(each, ())
        if guards:
            kept = guardrail_results(
                guards,
                test,
                policies,
                delta=delta,
                baseline=fallback,
                shares=shares,
                provenance=False,
            )
        outcomes = {}
        for name, candidate in each.items():
            if candidate is None:
                facts: dict[str, Any] = {"oracle": fallback}
            else:
                facts = {"oracle": candidate.oracle.name, **score_facts(candidate.score)}
            outcomes[name] = _Outcome(
                candidate,
                policies[name],
                self._on_terms(replace(made[name], **facts), kept[name], guards),
                moments[name],
                learned=candidate is None or learned[name] is not None,
            )
        return outcomes

    def _on_terms(
        self, made: Certificate, kept: tuple[GuardrailResult, ...], guards: Sequence[Guardrail]
    ) -> Certificate:
        """Return a certificate with the least value and the results of the guardrails."""
        if self.at_least is not None:
            made = replace(made, at_least=float(self.at_least))
        if guards:
            notes = (*made.notes, shared_note(self.delta, guards))
            made = replace(made, guardrails=kept, notes=notes)
        return made

    def _pool(self, log: Log) -> tuple[Candidate, ...]:
        if self.pool is None:
            pool = for_items(log, self.random_state)
            # Models of each action learn from fixed lists alone.
            if not pool or log.columns.eligible is None:
                pool = (*default_pool(self.random_state), *pool, *for_full_vectors(log))
        else:
            pool = candidates(self.pool, "pool")
        return (*pool, *candidates(self.extra, "extra"))

    def _fall_back(self, log: Log, schedule: Schedule, why: str) -> None:
        """Set the policy that is learned without proof, if there is anything to learn from.

        Args:
            log: all rows.
            schedule: whether there is time.
            why: why nothing else was chosen, in words.
        """
        try:
            vote = schedule.more(FALLBACK, lambda: GuardedVote(self.random_state).fit(log))
        except NothingToLearnError:
            return
        if vote is None:
            return
        # A log that knows the policy itself needs no imitation.
        if vote.chosen_ == "logging" or (
            vote.chosen_ == "imitation" and isinstance(log.behavior, Policy)
        ):
            self.rule_ += ", and no vote of learners shows signs of being better"
            return
        self.chosen_, self.rule_ = FALLBACK, f"{why}; instead {vote.rule_}"
        self.policy_: Policy = vote.policy_
        self.certified_policy_: Policy = vote.policy_
        self.certificate_: Certificate = vote.certificate_
        self.path_[FALLBACK] = PoolPoint(None, vote.policy_, vote.certificate_)

    def _settle(self, log: Log, best: PoolPoint, schedule: Schedule) -> None:
        """Set the policy that is returned, its certificate and its score."""
        one, certificate = best.candidate, best.certificate
        self.certified_policy_ = learned_from(log, best.policy)
        self.policy_ = self.certified_policy_
        if one is None:
            self.score_: Score | None = None
        else:
            self.score_ = one.score
        again: Policy | None = None
        if self.refit and one is not None:
            with _early_stops_ignored():
                again = schedule.more(one.label, lambda: one.oracle.solve(log, one.credit(log)))
            if again is None:
                certificate = replace(certificate, notes=(*certificate.notes, _NOT_AGAIN))
        self.refitted_ = again is not None
        if again is not None:
            self.policy_ = learned_from(log, again)
            unproved = Note(
                "nothing is proved for the policy to run "
                f"({argument('refit', value=False)} keeps the certified one)",
                kind="refitted",
            )
            certificate = replace(
                certificate,
                about=(
                    f"the policy learned from {certificate.training_rows:,} of "
                    f"{certificate.log_rows:,} rows, not the one to run, which was "
                    "learned again from all of them"
                ),
                notes=(*certificate.notes, unproved),
            )
        self.certificate_ = certificate

    def _note(self, schedule: Schedule) -> None:
        """Record what was not tried."""
        self.not_tried_ = (*schedule.not_tried, *schedule.left_out)
        # Afterwards, nothing is missing.
        self._interrupted = schedule.interrupted and bool(schedule.not_tried)
        if schedule.note is not None:
            made = self.certificate_
            self.certificate_ = replace(made, notes=(*made.notes, schedule.note))


def _check_pool(pool: Sequence[Candidate], fallback: str) -> None:
    """Check that there are candidates, with different names.

    Raises:
        UsageError: saying which name is used twice.
    """
    if not pool:
        raise UsageError("the pool is empty; give at least one classifier, oracle or candidate")
    labels = [fallback]
    for one in pool:
        if one.label in labels:
            raise UsageError(
                f"two candidates are called {one.label!r}; give them different names: "
                "Candidate(name, oracle, score)"
            )
        labels.append(one.label)


def _incumbent(log: Log, given: Policy | None) -> tuple[str, Policy]:
    """Return the key and the policy to fall back to: the one given, or the logging policy.

    Raises:
        UsageError: for an incumbent that is not a policy, or that is the logger of another log.
    """
    if given is not None and not isinstance(given, Policy):
        raise UsageError(
            f"{argument('incumbent')} is {given!r:.80}, expected a policy, such as piwo.load(path)"
        )
    check_loggers(log, {INCUMBENT: given})
    if given is None or given is log.behavior or isinstance(given, Logging):
        # one that can act, if the log has it
        return LOGGING, log.behavior if isinstance(log.behavior, Policy) else Logging(log.actions)
    return INCUMBENT, given


def _in_sample(log: Log, incumbent: Policy) -> bool:
    """Whether the incumbent was learned from these rows; warn if so: gains over it are biased."""
    found = overlaps(log, {INCUMBENT: incumbent})[INCUMBENT]
    if found.certain:
        warn(
            f"the incumbent was learned from part of this log ({found.how}), so no "
            "gain over it is certified, whatever the certificate says; learn from "
            "other rows"
        )
    return found.certain


def _encoded_for(today: Policy, log: Log) -> Log:
    """Return the log encoded as for the incumbent: all policies share one encoding.

    Raises:
        UsageError: if they do not have the same context columns.
    """
    theirs = today.features
    if today is log.behavior or theirs is None or not log.has_context:
        return log
    # Whether a column of a text file is text must not depend on the values in this log.
    log = log.typed_by(theirs)
    ours = log.features
    if ours is None or theirs == ours:
        return log
    if set(theirs.columns) != set(ours.columns):
        raise UsageError(
            "the incumbent was made from the context columns "
            f"{', '.join(theirs.columns)}, and the log was read with "
            f"{', '.join(ours.columns)}; read it with those of the incumbent"
        )
    return log.encoded_by(theirs)


def _contradicted(outcomes: Mapping[str, _Outcome]) -> bool:
    """Whether the rows of a direction contradict their propensities, so that there is no bound."""
    return any(one.certificate.improvement_lower is None for one in outcomes.values())


def _count(directions: Sequence[Mapping[str, _Outcome]]) -> str:
    """Return how many policies were learned and certified, in words, without the fallback."""
    counts = [next(iter(each.values())).certificate.candidates - 1 for each in directions]
    plural = "ies"
    if sum(counts) == 1:
        plural = "y"
    text = f"{sum(counts)} different polic{plural}"
    if len(counts) == 1:
        return text
    return f"{text} ({counts[0]} from one part of the rows, {counts[1]} from the other)"


def _why_none(
    directions: Sequence[Mapping[str, _Outcome]], fallback: str, made: Certificate
) -> str:
    """Return why nothing was chosen, in words: the same for every pool."""
    stays = f"{_STAYS[fallback]} stays"
    if made.improvement_lower is None:
        return f"the rows contradict their propensities, nothing is certified, and {stays}"
    both = len(directions) == 2
    rewarded = [bool(each[fallback].moments.reward) for each in directions]
    if not any(rewarded):
        which = "no row that was held out"
        if both:
            which = "no row"
        return (
            f"{which} has a reward above the lowest, so nothing can be certified "
            f"better, and {stays}"
        )
    reason = f"none of {_count(directions)} is certified better, so {stays}"
    # rows held out in one direction are the training rows of the other
    unlearned = both and not all(rewarded)
    for each in directions:
        unlearned = unlearned or not all(one.learned for one in each.values())
    if not unlearned:
        return reason
    return (
        f"{reason}; no row of one part has a reward above the lowest, so it has "
        "nothing to learn from"
    )


def _point(log: Log, outcomes: Sequence[_Outcome]) -> PoolPoint:
    """Return one candidate: of its policies the one with the higher bound, and its standing."""
    best = max(outcomes, key=lambda one: (not one.certificate.refusals, _improvement(one)))
    found = self_normalized(functools.reduce(MomentState.merge, [one.moments for one in outcomes]))
    estimate = standing = None
    if found.value is not None:
        estimate = log.value(found.value)
        if found.standard_error is not None:
            # V - SE
            standing = log.value(found.value - found.standard_error)
    return PoolPoint(best.candidate, best.policy, best.certificate, estimate, standing)


def _improvement(outcome: _Outcome) -> float:
    lower = outcome.certificate.improvement_lower
    if lower is None:
        return -math.inf
    return lower


def _refused(path: Mapping[str, PoolPoint]) -> str:
    """Return which candidates are certified better and refused all the same, and why, in words."""
    said = []
    for key, point in path.items():
        if point.certificate.certified and point.certificate.refusals:
            said.append(f"{key}: {'; '.join(point.certificate.refusals)}")
    if len(said) > _REFUSALS_SHOWN:
        more = len(said) - _REFUSALS_SHOWN
        said = [*said[:_REFUSALS_SHOWN], f"{more} more"]
    return ", ".join(said)


def _best(path: Mapping[str, PoolPoint], fallback: str) -> str:
    """Return the key of the point with the highest standing that a gate passes, the first of them.

    Args:
        path: the candidates, and the policy to fall back to.
        fallback: its key.
    """
    standings = {}
    for key, point in path.items():
        if not point.certificate.refusals:
            if point.standing is None:
                standings[key] = -math.inf
            else:
                standings[key] = point.standing
    return max(standings, key=lambda key: standings[key], default=fallback)


@contextmanager
def _early_stops_ignored() -> Iterator[None]:
    """Suppress warnings about fits that stopped early: candidates are judged by certificate."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="the logistic regression stopped", category=PiwoWarning
        )
        yield
