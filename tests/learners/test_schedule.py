"""A limit on time and Ctrl-C: the best of what was learned, with certificates that stay valid."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import piwo
from piwo.engines import stages
from piwo.engines.stages import OutOfTimeError, check_time, current_limit
from piwo.learners import GuardedVote
from piwo.oracles import Oracle, Ridge


@dataclass(frozen=True)
class Acting(Oracle):
    """The ridge oracle, after something else."""

    first: Callable[[], object]
    name: ClassVar[str] = "acting"

    def solve_path(self, log, scores):
        self.first()
        return Ridge().solve_path(log, scores)


def press():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)  # the signal arrives within


def until_out_of_time():
    while True:
        check_time()


def make_log(n=600):
    rng = np.random.default_rng(0)
    X, A = rng.normal(size=(n, 1)), rng.integers(0, 2, n)
    reward = ((X[:, 0] > 0) == A) * 1.0
    return piwo.Log.from_arrays(context=X, action=A, reward=reward, propensity=np.full(n, 0.5))


def candidate(name, first=lambda: None):
    return piwo.Candidate(name, Acting(first), piwo.IX(0.1))


def test_what_is_not_tried_keeps_its_share_of_delta():
    good = candidate("good")
    full = piwo.Auto([good, candidate("other")]).fit(make_log())
    cut = piwo.Auto([good, candidate("other", press)]).fit(make_log())
    assert (full.not_tried_, cut.not_tried_) == ((), ("other, IX gamma=0.1",))
    assert set(cut.path_) == {"good, IX gamma=0.1", "logging"}
    # the bounds are not those of one candidate alone: that there is one less was not known before
    alone = piwo.Auto([good]).fit(make_log())
    bound = cut.certificate_.improvement_lower
    assert bound is not None
    assert bound < alone.certificate_.improvement_lower
    assert cut.path_[cut.chosen_].certificate.share == pytest.approx(1 / 6)
    assert cut.policy_ is cut.certified_policy_
    assert not cut.refitted_
    assert cut.certificate_.certified
    text = [str(one) for one in cut.certificate_.notes]
    assert any("not tried: other, IX gamma=0.1 (learning was interrupted)" in x for x in text)
    assert cut.describe().facts["not_tried"] == ["other, IX gamma=0.1"]


def test_a_first_candidate_or_a_second_press_ends_without_a_result():
    with pytest.raises(KeyboardInterrupt):
        piwo.Auto([candidate("only", press)]).fit(make_log())

    def again(stage):
        if stage.text.startswith("certifying"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), stages(again):
        piwo.Auto([candidate("good"), candidate("other", press)]).fit(make_log())


def test_a_press_while_learning_again_keeps_the_certified_policy():
    calls = []

    def third():
        calls.append(1)
        if len(calls) == 3:  # after both parts
            press()

    learner = piwo.Auto([candidate("good", third)]).fit(make_log())
    assert len(calls) == 3
    assert not learner.refitted_
    assert learner.certificate_.certified
    assert learner.not_tried_ == ()


def test_a_limit_leaves_out_what_does_not_finish():
    pool = [candidate("good"), candidate("endless", until_out_of_time), candidate("late")]
    began = time.monotonic()
    learner = piwo.Auto(pool, seconds=1.0).fit(make_log())
    assert time.monotonic() - began < 4.0  # 1.2 on an idle machine
    assert learner.not_tried_ == ("endless, IX gamma=0.1", "late, IX gamma=0.1")
    assert learner.chosen_ == "good, IX gamma=0.1"
    assert any("the time of 1 s was up" in str(one) for one in learner.certificate_.notes)


def test_the_first_candidate_is_learned_however_short_the_time():
    slow = candidate("slow", lambda: time.sleep(0.05))
    learner = piwo.Auto([slow, candidate("late")], seconds=1e-3).fit(make_log())
    assert learner.not_tried_ == ("late, IX gamma=0.1",)
    assert not learner.refitted_


@pytest.mark.parametrize("seconds", [0, -1.0, float("inf"), "60"])
def test_a_limit_is_a_number_of_seconds(seconds):
    with pytest.raises(piwo.UsageError, match="seconds"):
        piwo.Auto(seconds=seconds).fit(make_log())


def test_stages_are_reported_with_the_time_left():
    made = []
    with stages(made.append):
        piwo.Auto([candidate("good"), candidate("other")]).fit(make_log())
    done = [one for one in made if one.done]
    assert [one.text for one in done] == [
        "learned 1 of 2: good, IX gamma=0.1",
        "learned 2 of 2: other, IX gamma=0.1",
    ]
    assert done[0].left > 0.0
    # what follows is not learning
    assert done[1].left is None
    with pytest.raises(piwo.UsageError, match="expected a function of a stage"):
        stages(None)


def test_what_is_not_tried_is_noted_whatever_is_returned(monkeypatch):
    """At this delta nothing is certified; the vote is learned, or is not finished either."""

    def learn(vote, log):
        vote.chosen_, vote.rule_ = "safe", "a vote"
        vote.policy_ = piwo.policies.Constant(0, log.actions)
        vote.certificate_ = piwo.Certificate("held-out", 0.5, None, None, 0.5)
        return vote

    monkeypatch.setattr(GuardedVote, "fit", learn)
    pool = [candidate("good"), candidate("endless", until_out_of_time)]
    learner = piwo.Auto(pool, seconds=0.5, delta=1e-99).fit(make_log())
    assert learner.chosen_ == "guarded vote"
    assert learner.not_tried_ == ("endless, IX gamma=0.1",)
    assert any("not tried: endless" in str(one) for one in learner.certificate_.notes)

    def out_of_time(*_):
        raise OutOfTimeError

    monkeypatch.setattr(GuardedVote, "fit", out_of_time)
    learner = piwo.Auto([candidate("good")], seconds=9.0, delta=1e-99).fit(make_log())
    assert learner.not_tried_ == ("guarded vote",)
    assert any("not tried: guarded vote" in str(one) for one in learner.certificate_.notes)


@pytest.mark.parametrize(("keep", "most"), [("logger", 80.0), (None, 60.0)])
def test_time_is_kept_for_what_is_learned_if_nothing_is_certified(keep, most):
    limits = []
    pool = [candidate("good"), candidate("second", lambda: limits.append(current_limit()))]
    began = time.monotonic()
    piwo.Auto(pool, seconds=100.0, delta=1e-99, keep=keep, refit=False).fit(make_log())
    assert limits[0] - began == pytest.approx(most, abs=2.0)


def test_the_time_left_is_known_while_policies_are_certified():
    made = []
    with stages(made.append):
        piwo.Auto([candidate("good")], seconds=100.0).fit(make_log())
        piwo.Auto([candidate("good")]).fit(make_log())
    left = [one.left for one in made if one.text.startswith("certifying")]
    # the first direction: until the limit; the second: as long as the first took
    assert left[0] == pytest.approx(100.0, abs=3.0)
    assert left[1] < 5.0
    assert left[2] is None
    assert left[3] < 5.0
