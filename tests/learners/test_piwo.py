"""PIWO: one score, one oracle, a certificate that holds."""

import math
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.logs.features import list_matrix


def make_log(n=2000, seed=0, **roles):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    A = rng.integers(0, 2, n)
    p = np.where(X[:, 1] > 0, 0.8, 0.2)
    A = (rng.random(n) < p).astype(int)
    R = (rng.random(n) < np.where((X[:, 0] > 0) == A, 0.8, 0.3)).astype(float)
    return piwo.Log.from_arrays(
        context=X, action=A, reward=R, propensity=np.where(A == 1, p, 1 - p), **roles
    )


def true_value(policy, seed=99, n=20_000):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    pi = policy.probabilities(X)
    right = (X[:, 0] > 0).astype(int)
    return float((pi * np.where(np.arange(2) == right[:, None], 0.8, 0.3)).sum(axis=1).mean())


SCORES = [piwo.IW(), piwo.IX(), piwo.Clip(), piwo.LSLinear()]


@pytest.mark.parametrize("score", SCORES, ids=lambda s: s.label)
@pytest.mark.parametrize(
    "oracle", [piwo.oracles.Ridge(), piwo.oracles.Classifier()], ids=lambda o: o.name
)
def test_every_score_learns_and_is_certified(score, oracle):
    learner = piwo.PIWO(score, oracle).fit(make_log())
    value = true_value(learner.policy_)
    assert value > 0.7  # the best is .8, the logger .55
    assert learner.certificate_.value_lower <= value
    assert learner.certificate_.certified
    assert learner.certificate_.rows + learner.certificate_.training_rows == 2000


def test_auto_gamma_says_which_rule():
    learner = piwo.PIWO(piwo.IX(), piwo.oracles.Ridge()).fit(make_log())
    assert "sqrt(d/n)" in learner.rule_
    assert learner.score_.gamma == pytest.approx(math.sqrt(4 / learner.certificate_.training_rows))
    log = make_log()
    both = piwo.oracles.Exhaustive([piwo.policies.Constant(x, log.actions) for x in log.actions])
    finite = piwo.PIWO(piwo.IX(), both, certificate="in-sample").fit(log)
    assert "theory for a finite class" in finite.rule_
    assert finite.score_.gamma == pytest.approx(math.sqrt(math.log(2 * 2 / 0.05) / 2000))
    linear = piwo.PIWO(piwo.LSLinear(), piwo.oracles.Ridge()).fit(make_log())
    assert linear.score_.lam == pytest.approx(2 * learner.score_.gamma)  # lam = 2 gamma


def test_a_path_is_chosen_from_by_certificate_and_pays_for_it():
    log = make_log()
    learner = piwo.PIWO(piwo.IX((0.001, 0.05, 0.5)), piwo.oracles.Ridge()).fit(log)
    assert sorted(learner.path_) == [0.001, 0.05, 0.5]
    assert learner.certificate_.candidates == 3
    assert learner.certificate_.value_lower == max(
        p.certificate.value_lower for p in learner.path_.values()
    )
    alone = piwo.PIWO(learner.score_, piwo.oracles.Ridge()).fit(log)
    assert alone.certificate_.value_lower > learner.certificate_.value_lower


def test_the_same_seed_gives_the_same_answer_and_another_another():
    log = make_log()
    one, two, other = (piwo.PIWO(random_state=s).fit(log) for s in (0, 0, 1))
    assert (one.policy_.coef == two.policy_.coef).all()
    assert one.certificate_.value_lower == two.certificate_.value_lower
    assert one.certificate_.log_digest == two.certificate_.log_digest
    assert (one.policy_.coef != other.policy_.coef).any()


def test_fit_leaves_the_constructor_arguments_alone():
    from sklearn.base import clone

    learner = piwo.PIWO(piwo.IX(), piwo.oracles.Ridge(), delta=0.1)
    before = learner.get_params()
    learner.fit(make_log(300))
    assert learner.get_params() == before
    assert clone(learner).get_params() == before
    assert not hasattr(clone(learner), "policy_")
    with pytest.raises(piwo.UsageError, match="no parameter 'gama'"):
        learner.set_params(gama=1)


@pytest.mark.statistics
def test_held_out_certificates_hold():
    """The certificate of a learned policy errs in at most delta of the runs; the estimate on its
    own rows boasts."""
    wrong = boasts = 0
    runs = 60
    for seed in range(runs):
        learner = piwo.PIWO(piwo.IW(), piwo.oracles.Ridge(), delta=0.2).fit(
            make_log(120, seed=seed)
        )
        value = true_value(learner.policy_, n=5000)
        wrong += learner.certificate_.value_lower > value + 0.01
        alone = piwo.PIWO(piwo.IW(), piwo.oracles.Ridge(), certificate=None).fit(
            make_log(120, seed=seed)
        )
        boasts += piwo.evaluate(make_log(120, seed=seed), alone.policy_).value > true_value(
            alone.policy_, n=5000
        )
    assert wrong <= 0.2 * runs
    assert boasts >= 0.6 * runs  # the same rows praise the policy that was made for them


def test_no_in_sample_certificate_for_a_class_of_unknown_size():
    with pytest.raises(piwo.UsageError, match="held-out"):
        piwo.PIWO(piwo.IX(), piwo.oracles.Ridge(), certificate="in-sample").fit(make_log(200))


def test_scores_that_no_oracle_can_maximize():
    with pytest.raises(piwo.UsageError, match="LSLinear"):
        piwo.PIWO(piwo.LS(0.1)).fit(make_log(200))


def test_thinned_logs_carry_no_certificate():
    log = make_log(200, weight=np.full(200, 2.0))
    with pytest.raises(piwo.UsageError, match="thinned"):
        piwo.PIWO().fit(log)
    assert piwo.PIWO(certificate=None).fit(log).certificate_ is None


def test_pseudo_loss_learns_from_full_vectors():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    mu = np.column_stack([np.full(2000, 0.3), np.full(2000, 0.7)])
    A = (rng.random(2000) < 0.7).astype(int)
    R = ((X[:, 0] > 0) == A).astype(float)
    log = piwo.Log.from_arrays(context=X, action=A, reward=R, propensities=mu, actions=[0, 1])
    learner = piwo.PIWO(piwo.PseudoLoss(), piwo.oracles.Ridge()).fit(log)
    assert (learner.policy_.act(X).actions == (X[:, 0] > 0)).mean() > 0.9


def test_policy_and_certificate_survive_a_new_process(tmp_path):
    log = make_log()
    learner = piwo.PIWO().fit(log)
    path = tmp_path / "p.piwo"
    learner.policy_.save(path, metadata={"certificate": learner.certificate_.to_dict()})
    code = (
        "import sys, piwo; s = piwo.policies.load_with_metadata(sys.argv[1]);"
        "c = piwo.Certificate.from_dict(s.metadata['certificate']);"
        "print(s.policy.act([[3.0, 0, 0, 0], [-3.0, 0, 0, 0]]).actions.tolist(), c.value_lower)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    ).stdout.split("] ")
    assert out[0] == "[1, 0"
    assert float(out[1]) == learner.certificate_.value_lower


def test_the_tail_can_be_held_out_for_adaptive_logs():
    log = make_log(1000)
    learner = piwo.PIWO(holdout=0.25, tail=True).fit(log)
    last = log.split(holdout=0.25, tail=True)
    twin = piwo.PIWO(certificate=None).fit(last.train)
    assert learner.certificate_.training_rows == 750
    assert (learner.policy_.coef == twin.policy_.coef).all()
    assert (
        learner.certificate_.value_lower
        == piwo.certify(last.test, {0: twin.policy_})[0].value_lower
    )


def test_nothing_is_certified_on_propensities_that_are_too_small():
    """Half of every propensity: each bound would be twice too high; the held-out rows show it,
    and none is given."""
    rng = np.random.default_rng(1)
    n = 4000
    A, X = rng.integers(0, 4, n), rng.normal(size=(n, 1))
    roles = {"context": X, "action": A, "reward": (rng.random(n) < 0.3).astype(float)}
    honest = (
        piwo.PIWO().fit(piwo.Log.from_arrays(**roles, propensity=np.full(n, 0.25))).certificate_
    )
    assert not honest.certified
    assert honest.propensity_p > 0.01
    wrong = (
        piwo.PIWO().fit(piwo.Log.from_arrays(**roles, propensity=np.full(n, 0.125))).certificate_
    )
    assert (wrong.value_lower, wrong.improvement_lower, wrong.certified) == (None, None, False)
    assert wrong.propensity_p < 1e-3
    assert "too small" in wrong.notes[0]


def test_an_in_sample_certificate_is_of_a_declared_class():
    log = make_log(300)
    both = {x: piwo.policies.Constant(x, log.actions) for x in log.actions}
    first, last = both.values()
    with pytest.raises(TypeError):
        piwo.certify(log, both, kind="in-sample")
    with pytest.raises(piwo.UsageError, match="not in the class that was declared"):
        piwo.certify(log, both, within=piwo.oracles.Exhaustive([first]))
    with pytest.raises(piwo.UsageError, match="unknown size"):
        piwo.certify(log, both, within=piwo.oracles.Ridge())
    with pytest.raises(piwo.UsageError, match="expected the class that was declared"):
        piwo.certify(log, both, within=list(both.values()))
    paid = piwo.certify(log, both, within=piwo.oracles.Exhaustive([first, last]))
    assert [x.kind for x in paid.values()] == ["in-sample"] * 2
    held = piwo.certify(log, both)
    assert [x.value_lower for x in paid.values()] == [x.value_lower for x in held.values()]


def test_a_holdout_that_is_used_again_counts_every_candidate():
    log = make_log(2000)
    first, last = (piwo.policies.Constant(x, log.actions) for x in list(log.actions)[:2])
    alone = piwo.certify(log, {0: first})[0]
    again = piwo.certify(log, {0: last}, earlier=alone)[0]
    together = piwo.certify(log, {0: first, 1: last})[1]
    assert (alone.candidates, again.candidates, together.candidates) == (1, 2, 2)
    assert again.value_lower == together.value_lower
    assert again.value_lower < piwo.certify(log, {0: last})[0].value_lower
    assert piwo.certify(log, {0: last}, earlier=1)[0].value_lower == again.value_lower
    assert piwo.certify(log, {0: first}, earlier=again)[0].candidates == 3
    with pytest.raises(piwo.UsageError, match="of other rows"):
        piwo.certify(make_log(1999), {0: last}, earlier=alone)
    both = piwo.oracles.Exhaustive([first, last])
    with pytest.raises(piwo.UsageError, match="has paid for its whole class"):
        piwo.certify(log, {0: last}, within=both, earlier=1)
    with pytest.raises(piwo.UsageError, match="earlier is -1"):
        piwo.certify(log, {0: last}, earlier=-1)


def test_equal_policies_are_one_candidate() -> None:
    log = piwo.Log.from_arrays(action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100)
    a, b = ([piwo.policies.Constant(x, log.actions) for _ in range(3)] for x in "ab")
    made = piwo.certify(log, {**dict(enumerate(a)), "b": b[0], "again": b[1].onto(log.actions)})
    assert {one.candidates for one in made.values()} == {2}
    pair = piwo.certify(log, {0: a[0], "b": b[0]})
    assert made[2].value_lower == pair[0].value_lower
    assert made["again"].value_lower == pair["b"].value_lower


def test_what_a_declared_class_contains():
    log = make_log(50)
    uniform, constant = (
        piwo.policies.Uniform(log.actions),
        piwo.policies.Constant(log.actions.labels[0], log.actions),
    )
    some = piwo.oracles.Exhaustive([uniform, piwo.policies.Logging(), constant])
    assert all(some.contains(one) for one in some.candidates(log))
    assert some.contains(piwo.policies.Constant(log.actions.labels[0], log.actions))
    assert not some.contains(piwo.policies.Constant(log.actions.labels[1], log.actions))
    assert not some.contains(piwo.policies.EpsilonGreedy(constant, 0.1))
    choices = np.random.default_rng(0).choice(log.actions.labels, (5, 50))
    rows = piwo.oracles.Exhaustive(choices)
    assert all(rows.contains(one) for one in rows.candidates(log))
    (other,) = piwo.oracles.Exhaustive(choices[:1, ::-1]).candidates(log)
    assert not rows.contains(other)
    assert not piwo.oracles.Ridge().contains(constant)


def test_a_context_of_empty_lists_is_refused():
    table = {"action": ["a", "b"] * 50, "reward": [1.0, 0.0] * 50, "propensity": [0.5] * 100}
    for lists in ([[]] * 100, [[], [1.0]] * 50):
        column = pa.array(lists, pa.list_(pa.float64()))
        log = piwo.read(pa.table({**table, "x": column}), context="x")
        with pytest.raises(piwo.DataError, match="no numbers to learn from"):
            piwo.PIWO(certificate=None).fit(log)


def test_lists_of_no_numbers_are_a_matrix_without_columns():
    lists = pa.array([[], []], pa.list_(pa.float64()))
    matrix, missing = list_matrix(lists, "x", 0)
    assert matrix.shape == (2, 0)
    assert not missing.any()
