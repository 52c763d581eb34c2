"""The classifier oracle is weighted classification of the logged actions."""

import numpy as np
import pytest
import sklearn
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import piwo


def make_log(n=2000, seed=0, scale=1.0, actions=("a", "b", "c"), reward_range=(0.0, 1.0)):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 20.0, 0.1] + [0.0, 5.0, 0.0]
    best = np.digitize(X[:, 0], [-0.5, 0.5])
    A = rng.integers(0, 3, n)
    R = ((best == A) | (rng.random(n) < 0.1)) * scale
    labels = np.array(["a", "b", "c"])
    log = piwo.Log.from_arrays(
        context=X,
        action=labels[A],
        reward=R,
        propensity=np.full(n, 1 / 3),
        actions=actions,
        reward_range=reward_range,
    )
    return log, X, A, R, labels, best


def test_default_is_weighted_multinomial_logistic_regression():
    log, X, A, R, labels, _ = make_log()
    policy = piwo.oracles.Classifier().solve(log, piwo.IX(0.1))
    kept = R > 0
    twin = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    twin.fit(X[kept], labels[A[kept]], logisticregression__sample_weight=np.ones(kept.sum()))
    assert isinstance(policy, piwo.policies.LinearGreedy)
    assert (policy.act(X).actions == twin.predict(X)).all()


def test_it_learns():
    log, X, _, _, labels, best = make_log()
    policy = piwo.oracles.Classifier().solve(log, piwo.IX(0.1))
    assert (policy.act(X).actions == labels[best]).mean() > 0.85


def test_the_unit_of_the_reward_does_not_matter():
    one, *_ = make_log()
    two, *_ = make_log(scale=50.0, reward_range=(0.0, 50.0))
    first, second = (piwo.oracles.Classifier().solve(log, piwo.IX(0.1)) for log in (one, two))
    assert np.allclose(first.coef, second.coef)
    iw = piwo.oracles.Classifier().solve(
        one, piwo.IW()
    )  # constant propensity: IW gains are IX gains times a constant
    assert np.allclose(first.coef, iw.coef, atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(max_depth=3),
        make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3)),
    ],
)
def test_any_classifier_with_weights(model, tmp_path):
    log, X, _, _, labels, best = make_log()
    policy = piwo.oracles.Classifier(model).solve(log, piwo.IX(0.1))
    assert (policy.act(X).actions == labels[best]).mean() > 0.85
    assert not hasattr(model, "classes_")  # the user's model is not touched
    policy.save(tmp_path / "p.piwo")
    assert (piwo.load(tmp_path / "p.piwo").act(X).actions == policy.act(X).actions).all()


def test_weights_matter():
    # two contexts-free groups: label a is logged often for little reward, label b seldom for much
    X = np.zeros((100, 1))
    A = np.array(["a"] * 90 + ["b"] * 10)
    R = np.array([0.5] * 90 + [1.0] * 10)
    mu = np.where(A == "a", 0.9, 0.1)
    log = piwo.Log.from_arrays(context=X, action=A, reward=R, propensity=mu)
    assert piwo.oracles.Classifier().solve(log, piwo.IX(1e-6)).act(X[:1]).actions[0] == "b"
    assert piwo.oracles.Classifier().solve(log, piwo.IX(1e6)).act(X[:1]).actions[0] == "a"


HAND_ON = {
    "a pipeline in a pipeline": make_pipeline(
        StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression())
    ),
    "a search": GridSearchCV(LogisticRegression(), {"C": [1.0, 2.0]}, cv=3),
    "a search that scores by name": GridSearchCV(
        LogisticRegression(), {"C": [1.0, 2.0]}, cv=3, scoring="accuracy"
    ),
    "a search of a pipeline": GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()),
        {"logisticregression__C": [1.0, 2.0]},
        cv=3,
    ),
    "a search in a pipeline": make_pipeline(
        StandardScaler(), GridSearchCV(LogisticRegression(), {"C": [1.0, 2.0]}, cv=3)
    ),
    "a search of a vote": GridSearchCV(
        VotingClassifier(
            [("tree", DecisionTreeClassifier(max_depth=2)), ("line", LogisticRegression())]
        ),
        {"line__C": [1.0, 2.0]},
        cv=3,
    ),
    "voting": VotingClassifier(
        [
            ("tree", DecisionTreeClassifier(max_depth=2)),
            ("line", make_pipeline(StandardScaler(), LogisticRegression())),
        ]
    ),
    "stacking": StackingClassifier(
        [
            ("tree", DecisionTreeClassifier(max_depth=2)),
            ("line", make_pipeline(StandardScaler(), LogisticRegression())),
        ],
        cv=3,
    ),
}


@pytest.fixture(params=HAND_ON)
def name(request):
    version = tuple(int(x) for x in sklearn.__version__.split(".")[:2])
    if request.param in {"voting", "stacking"} and version < (1, 7):
        with pytest.raises(piwo.UsageError, match=r"Pipeline\.fit takes no .* since 1\.7"):
            piwo.oracles.Classifier(HAND_ON[request.param])
        pytest.skip("these hand weights on to pipelines since 1.7")
    return request.param


def test_estimators_that_hand_weights_on(name, tmp_path):
    rng = np.random.default_rng(0)
    x, A = rng.normal(size=(2000, 1)), rng.integers(0, 2, 2000)
    log = piwo.Log.from_arrays(
        context=x,
        action=np.array(["A", "B"])[A],
        reward=((x[:, 0] > 0) == A),
        propensity=np.full(2000, 0.5),
    )
    policy = piwo.oracles.Classifier(HAND_ON[name]).solve(log, piwo.IX(0.1))
    assert policy.probabilities([[-1.0], [1.0]]).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert "_metadata_request" not in vars(HAND_ON[name])
    if name != "a search that scores by name":
        policy.save(tmp_path / "p.piwo")
        assert (piwo.load(tmp_path / "p.piwo").act(x).actions == policy.act(x).actions).all()


def test_weights_that_are_handed_on_matter(name):
    # as in test_weights_matter: 90 small rewards of a against 10 large ones of b
    A = np.array(["a"] * 90 + ["b"] * 10)
    R = np.array([0.5] * 90 + [1.0] * 10)
    X = np.random.default_rng(0).normal(size=(100, 1)) * 1e-3
    mu = np.where(A == "a", 0.9, 0.1)
    log = piwo.Log.from_arrays(context=X, action=A, reward=R, propensity=mu)
    heavy = piwo.oracles.Classifier(HAND_ON[name]).solve(log, piwo.IX(1e-6))
    light = piwo.oracles.Classifier(HAND_ON[name]).solve(log, piwo.IX(1e6))
    assert (heavy.act(X).actions == "b").mean() > (light.act(X).actions == "b").mean() + 0.3


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), KNeighborsClassifier()),
        GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3]}),
        VotingClassifier([("line", LogisticRegression()), ("near", KNeighborsClassifier())]),
        StackingClassifier(
            [("line", LogisticRegression())], final_estimator=KNeighborsClassifier()
        ),
        VotingClassifier(
            [("none", "drop"), ("vote", VotingClassifier([("near", KNeighborsClassifier())]))]
        ),
    ],
)
def test_a_part_without_weights_is_named(model):
    with pytest.raises(piwo.UsageError, match=r"KNeighborsClassifier\.fit takes no sample_weight"):
        piwo.oracles.Classifier(model)


def test_an_action_never_rewarded_is_never_played():
    log, X, *_ = make_log(actions=("z", "c", "b", "a"))
    policy = piwo.oracles.Classifier().solve(log, piwo.IX(0.1))
    assert (policy.probabilities(X)[:, 0] == 0).all()
    assert len(set(policy.act(X).actions)) == 3


def test_one_rewarded_action_is_a_constant_policy():
    log = piwo.Log.from_arrays(
        context=[[1.0], [2.0]], action=["a", "b"], reward=[0, 1], propensity=[0.5, 0.5]
    )
    assert piwo.oracles.Classifier().solve(log, piwo.IX(0.1)).act([[9.0]]).actions.tolist() == ["b"]


def test_nothing_to_learn_from():
    log = piwo.Log.from_arrays(
        context=[[1.0], [2.0]], action=["a", "b"], reward=[0, 0], propensity=[0.5, 0.5]
    )
    with pytest.raises(piwo.DataError, match="nothing to learn from"):
        piwo.oracles.Classifier().solve(log, piwo.IX(0.1))


def test_a_classifier_without_weights_is_refused():
    with pytest.raises(piwo.UsageError, match="sample_weight"):
        piwo.oracles.Classifier(KNeighborsClassifier())


def test_negative_gains_are_no_weights():
    log, *_ = make_log()
    with pytest.raises(piwo.UsageError, match="ridge"):
        piwo.oracles.Classifier().solve(log, piwo.PseudoLoss(0.1))


def test_a_path_is_its_parts_and_proportional_gains_are_learned_once():
    rng = np.random.default_rng(5)
    n = 600
    X, A = rng.normal(size=(n, 3)), rng.integers(0, 3, n)
    R = (rng.random(n) < np.where(X.argmax(axis=1) == A, 0.9, 0.2)).astype(float)
    scores = [piwo.LSLinear(lam) for lam in (32.0, 2.0, 0.1)]

    def path(propensity):
        log = piwo.Log.from_arrays(context=X, action=A, reward=R, propensity=propensity)
        return log, piwo.oracles.Classifier().solve_path(log, scores)

    log, policies = path(np.where(A == 0, 0.05, 0.4))
    alone = [piwo.oracles.Classifier().solve(log, score) for score in scores]
    for one, twin in zip(policies, alone, strict=True):
        assert (
            one.act(X).actions == twin.act(X).actions
        ).mean() > 0.99  # the same optimum, to the solver's tolerance
    assert len({id(one) for one in policies}) == 3
    # one propensity, rewards of 0 and 1: the weights are the same whatever lam
    _, policies = path(np.full(n, 1 / 3))
    assert len({id(one) for one in policies}) == 1
