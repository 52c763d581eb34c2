"""The page says what was found, and is whole."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import piwo
from piwo.errors import FileError, UsageError
from piwo.report import page, summarize, write

pytest.importorskip("jinja2")


@pytest.fixture
def log() -> piwo.Log:
    return rows(0)


def rows(seed: int) -> piwo.Log:
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=(500, 1)), rng.integers(0, 2, 500)
    return piwo.Log.from_arrays(
        context=x, action=a, reward=(a == (x[:, 0] > 0)) * 1.0, propensity=np.full(500, 0.5)
    )


def test_values_health_and_certificate(log: piwo.Log) -> None:
    learner = piwo.PIWO().fit(rows(1))
    found = piwo.compare(
        log, {"uniform": piwo.policies.Uniform(log.actions), "learned": learner.policy_}
    )
    text = page(
        summarize(log, list(found.values()), piwo.check(log), {"learned": learner.certificate_})
    )
    assert "All 2 proved gains hold together with probability at least 95&nbsp;%" in text
    assert "Certified better than the logging policy" in text
    assert "<strong>fit</strong>: for the uniform policy: nothing was found" in text
    assert f'<td data-label="lower">{found["learned"].lower:.4g}</td>' in text
    assert learner.certificate_.log_digest in text
    assert "None" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    assert "nan" not in re.findall(r"<td[^>]*>([^<]*)</td>", text)


def test_rows_of_one_weight_are_not_listed(log: piwo.Log) -> None:
    found = [piwo.evaluate(log, piwo.policies.Uniform(log.actions))]
    assert "all weights are equal" in page(summarize(log, found, piwo.check(log)))
    other = piwo.Log.from_arrays(action=[0, 1] * 50, reward=[0, 1] * 50, propensity=[0.2, 0.8] * 50)
    text = page(summarize(other, found, piwo.check(other)))
    assert "all weights are equal" not in text
    assert text.split("Heaviest rows")[1].split("</table>")[0].count("<tr>") == 1 + 10


def test_without_health_and_certificate(log: piwo.Log) -> None:
    text = page(
        summarize(log, [piwo.evaluate(log, piwo.policies.Uniform(log.actions), interval="normal")])
    )
    assert "carry no guarantee" in text
    assert "Health" not in text
    assert "Certificate" not in text


def test_it_is_written_whole(log: piwo.Log, tmp_path: Path) -> None:
    summary = summarize(log, [piwo.evaluate(log, piwo.policies.Uniform(log.actions), name="Łódź")])
    write(summary, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes().decode("utf-8") == page(summary)
    assert [x.name for x in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(FileError, match="cannot be written"):
        write(summary, tmp_path / "no" / "report.html")


def test_nothing_to_report(log: piwo.Log) -> None:
    with pytest.raises(UsageError, match="evaluations is empty"):
        summarize(log, [])


def test_without_jinja2(log: piwo.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError, match=r"python -m pip install jinja2$"):
        page(summarize(log, [piwo.evaluate(log, piwo.policies.Uniform(log.actions))]))


def test_the_import_is_light() -> None:
    code = "import sys, piwo.report; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_was_asked_and_segments_are_on_the_page() -> None:
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 600)
    log = piwo.Log.from_arrays(
        action=action,
        reward=(rng.random(600) < np.where(action, 0.8, 0.3)) * 1.0,
        propensity=np.full(600, 0.5),
        outcomes={"bad": (rng.random(600) < 0.3 * action) * 1.0},
        segments={"country": np.where(np.arange(600) % 3, "<b>DE", "FR")},
    )
    one = piwo.policies.Constant(1, log.actions)
    asked = {"guardrail": ["bad<=.1", "bad<=.32"], "by": "country"}
    found = piwo.compare(log, {"one": one}, **asked)
    made = piwo.certify(log, {"one": one}, at_least=0.7, **asked)
    text = page(summarize(log, list(found.values()), None, made, at_least=0.5))
    assert "one: value at least 0.5: <strong>certified</strong>" in text
    assert re.search(r"one: bad &lt;= 0.1 \(between.*\): <strong>certified harm</strong>", text)
    assert re.search(r"bad &lt;= 0.32 \(.*\): <strong>not certified harmless</strong>", text)
    assert re.search(r'class="name">&lt;b&gt;DE<small>400 rows', text)
    assert "The bounds of all 2 segments hold together" in text
    assert "<b>" not in text
    assert '<td data-label="found">value at least 0.7: ' in text
    assert text.count('<td data-label="what">guardrail</td>') == 2
    assert text.count('<td data-label="what">segment</td>') == 2
    unmet = page(summarize(log, list(found.values()), at_least=0.99))
    assert "one: value at least 0.99: <strong>not certified</strong>" in unmet
