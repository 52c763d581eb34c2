"""The application: what it answers, what it refuses, and what it does when the disk is full."""

import asyncio
import errno
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.cli.main import main
from piwo.cli.notices import as_option
from piwo.logs import Features
from piwo.messages import arguments_shown
from piwo.policies import Constant, LinearSoftmax, Policy
from piwo.serve import Server, application
from piwo.serve import log_writer as module
from piwo.serve.app import MOST_BYTES

JSON = {"Content-Type": "application/json"}
LABELS = ["<script>alert(1)</script>", "b"]


def policy() -> Policy:
    return LinearSoftmax([[1.0], [0.0]], [0.0, 0.0], LABELS, features=Features.numeric(["x"]))


class Web:
    """A client of an application that runs in this thread while it answers."""

    def __init__(self, runner: asyncio.Runner, web: httpx.AsyncClient) -> None:
        self._runner, self._web = runner, web

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self._runner.run(self._web.post(path, **body))

    def get(self, path: str) -> httpx.Response:
        return self._runner.run(self._web.get(path))


def connected(app: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://test")


@contextmanager
def client(server: Server, **options: Any) -> Iterator[Web]:
    app = application(server, **options)
    with asyncio.Runner() as runner:
        lifespan, web = app.router.lifespan_context(app), connected(app)
        runner.run(lifespan.__aenter__())
        try:
            yield Web(runner, web)
        finally:
            runner.run(web.aclose())
            runner.run(lifespan.__aexit__(None, None, None))


def test_decide_reward_and_read(tmp_path: Path) -> None:
    server = Server(policy(), tmp_path / "log", epsilon=0.1, uncertified=True)
    with client(server) as web:
        for i in range(6):
            found = web.post("/decide", json={"context": {"x": 0.5}}).json()
            assert found["action"] in LABELS
            reward = web.post(
                "/reward", json={"decision_id": found["decision_id"], "reward": i % 2}
            )
            assert (reward.status_code, reward.json()) == (200, {"logged": True})
        limited = web.post("/decide", json={"context": {"x": 1}, "eligible": ["b"]})
        assert limited.json()["action"] == "b"
        assert limited.json()["propensity"] == 1.0
        assert web.post(
            "/reward", json={"decision_id": limited.json()["decision_id"], "reward": 1}
        ).is_success
    (batch,) = piwo.read(tmp_path / "log").each_batch()
    assert batch.reward.tolist() == [0, 1, 0, 1, 0, 1, 1]


def test_messages_name_fields_of_the_request_also_below_the_command(tmp_path: Path) -> None:
    asked = [
        ("/decide", {"context": {"x": 1}, "eligible": "x"}, "eligible is 'x', expected a list"),
        ("/decide", {"context": {"x": None}}, "column 'x' is missing, expected a value; give one"),
        ("/decide", {"context": {"x": 1, "z": 2}}, "let the server log it"),
        ("/decide", {"context": {"x": 1}, "items": {"a": {}}}, "leave items out"),
        ("/reward", {"decision_id": "1", "reward": 1}, "decision_id is '1', expected the 32"),
        ("/reward", {"decision_id": "0" * 32, "reward": 7}, "reward is 7, expected a reward in"),
    ]
    # as `piwo serve` runs: its own messages name options
    with (
        arguments_shown(as_option),
        client(Server(policy(), tmp_path / "log", uncertified=True)) as web,
    ):
        for path, body, message in asked:
            error = web.post(path, json=body).json()["error"]
            assert message in error
            assert "--" not in error.replace("--context of piwo serve", "")


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/decide", b"{", "not a JSON object"),
        ("/decide", b"[]", "not a JSON object"),
        ("/decide", b'{"context": {"x": NaN}}', "not a JSON object"),
        ("/decide", b'{"context": {}, "context": {}}', "has 'context' twice"),
        ("/decide", b'{"contex": {}}', "key 'contex', expected context, eligible and items"),
        ("/decide", b'{"x": 1}', "key 'x', expected context, eligible and items; put the columns"),
        ("/decide", b"{}", "the columns that the policy looks at (1); send {"),
        ("/decide", b'{"context": {"x": 1, "zz": 3}}', "has the column 'zz', expected x; leave it"),
        ("/decide", b'{"context": {"x": 1e999}}', "'x' is inf, expected a finite number"),
        ("/decide", b'{"context": null}', "the context is null, expected a JSON object with the"),
        ("/decide", b'{"context": "x"}', "is a text, expected a JSON object with the columns"),
        ("/decide", b'{"context": [1]}', "is a list, expected a JSON object with the columns"),
        ("/decide", b'{"context": {}}', "'x' is missing"),
        ("/decide", b'{"context": {"x": "1"}}', "expected a number"),
        ("/decide", b'{"context": 3}', "is a number, expected a JSON object"),
        (
            "/decide",
            b'{"context": {"x": 1}, "eligible": ["b", "zz"]}',
            "eligible has 'zz', which is no",
        ),
        ("/decide", b'{"context": {"x": 1}, "items": {"a": {}}}', "leave items out"),
        ("/decide", b'{"context": {"x": 1}, "eligible": {"a": 1}}', "a list of labels"),
        ("/decide", b"[" * 20_000, "not a JSON object"),
        ("/decide", b'{"context": {"x": 1%s}}' % (b"0" * 400), "expected a finite number"),
        ("/reward", b"{}", "32 hexadecimal digits in lower case"),
        ("/reward", b'{"decision_id": "' + b"A" * 32 + b'", "reward": 1}', "in lower case"),
        ("/reward", b'{"decision_id": "%s", "reward": 1%s}' % (b"0" * 32, b"0" * 400), "finite"),
        ("/reward", b'{"decision_id": "' + b"0" * 32 + b'", "reward": 7}', "a reward in"),
        ("/reward", b'{"decision_id": "' + b"0" * 32 + b'", "reward": "1"}', "reward is '1'"),
    ],
)
def test_a_request_that_cannot_be_used_is_explained(
    tmp_path: Path, path: str, body: bytes, message: str
) -> None:
    with client(Server(policy(), tmp_path / "log", uncertified=True)) as web:
        found = web.post(path, content=body, headers=JSON)
    assert found.status_code == 422
    assert message in found.json()["error"]
    assert "Traceback" not in found.text
    assert str(tmp_path) not in found.text


def test_large_bodies_and_unknown_paths_are_refused() -> None:
    with client(Server(policy(), uncertified=True)) as web:
        assert web.post("/decide", content=b" " * (MOST_BYTES + 1), headers=JSON).status_code == 413
        assert web.get("/decide").status_code == 405
        for path in ("/docs", "/openapi.json", "/redoc", "/"):
            assert web.get(path).status_code == 404


def test_a_fault_shows_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a secret")

    server = Server(policy(), uncertified=True)
    monkeypatch.setattr(server, "choose", broken)
    with client(server) as web:
        found = web.post("/decide", json={"context": {"x": 1}})
    assert found.status_code == 500
    assert "secret" not in found.text


def test_labels_are_inert() -> None:
    with client(Server(Constant(LABELS[0], LABELS), uncertified=True)) as web:
        found = web.post("/decide", json={})
        metrics = web.get("/metrics").text
    assert found.headers["content-type"] == "application/json"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.json()["action"] == LABELS[0]
    assert "script" not in metrics


def test_a_full_disk_gives_503_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    body = {"context": {"x": 0.5}}
    with client(Server(policy(), tmp_path / "log", uncertified=True)) as web:
        first = web.post("/decide", json=body).json()
        with monkeypatch.context() as patch:
            patch.setattr(module, "_write_all", full)
            refused = web.post("/decide", json=body)
            reward = {"decision_id": first["decision_id"], "reward": 1}
            assert web.post("/reward", json=reward).status_code == 503
            health = web.get("/health")
        assert refused.status_code == 503
        assert refused.json() == {"error": "the log cannot be written; nothing was logged"}
        assert health.status_code == 503
        assert "No space left" in health.json()["log_problem"]
        assert web.post("/reward", json=reward).status_code == 200
        assert web.get("/health").json()["status"] == "ok"
    log = piwo.read(tmp_path / "log")
    written = pq.read_table(list(log.source.paths))  # type: ignore[attr-defined]
    assert written.column("decision_id").to_pylist() == [first["decision_id"]]


def test_a_policy_without_features_needs_no_context(tmp_path: Path) -> None:
    server = Server(Constant("b", LABELS), tmp_path / "log", uncertified=True)
    with client(server) as web:
        found = web.post("/decide", json={})
    assert (found.status_code, found.json()["action"]) == (200, "b")


@pytest.mark.parametrize("context", [None, [], "", 0, False])
def test_a_context_is_an_object_also_for_a_policy_that_reads_none(context: Any) -> None:
    with client(Server(Constant("b", LABELS), uncertified=True)) as web:
        found = web.post("/decide", json={"context": context})
        assert web.post("/decide", json={"context": {}}).status_code == 200
    assert found.status_code == 422
    assert found.json()["error"].endswith(
        'expected a JSON object with the columns that the policy looks at (0); send {"context": {}}'
    )


def test_a_closed_server_answers_503(tmp_path: Path) -> None:
    server = Server(policy(), tmp_path / "log", uncertified=True)
    with client(server) as web:
        made = web.post("/decide", json={"context": {"x": 1}}).json()
        server.close()
        reward = {"decision_id": made["decision_id"], "reward": 1}
        for path, body in (("/decide", {"context": {"x": 1}}), ("/reward", reward)):
            found = web.post(path, json=body)
            assert found.status_code == 503
            assert found.json() == {"error": "the server is closed; nothing was logged"}
        health = web.get("/health")
    assert (health.status_code, health.json()["status"]) == (503, "the server is closed")
    assert not list((tmp_path / "log").glob("*.jsonl"))


def test_health_looks_whether_the_log_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with client(Server(policy(), tmp_path / "log", uncertified=True)) as web:
        with monkeypatch.context() as patch:
            patch.setattr(module, "_write_all", full)
            assert web.post("/decide", json={"context": {"x": 1}}).status_code == 503
            assert web.get("/health").status_code == 503
        assert web.get("/health").json()["status"] == "ok"
        assert not list((tmp_path / "log").glob(".room*"))


def test_a_web_page_cannot_post_and_cannot_use_a_name_of_its_own() -> None:
    server = Server(policy(), uncertified=True)
    body = json.dumps({"context": {"x": 1}})
    with client(server) as web:
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            found = web.post("/decide", content=body, headers={"Content-Type": kind})
            assert found.status_code == 415
        charset = {"Content-Type": "application/json; charset=utf-8"}
        assert web.post("/decide", content=body, headers=charset).status_code == 200
    with client(Server(policy(), uncertified=True), local=True) as web:
        for host in ("evil.example", "127.0.0.1.evil.example:80", "", "localhost:x"):
            headers = {**JSON, "Host": host}
            assert web.post("/decide", content=body, headers=headers).status_code == 403
        for host in ("localhost", "127.0.0.1:8000", "[::1]:8000", "[::1]", "LOCALHOST:1"):
            headers = {**JSON, "Host": host}
            assert web.post("/decide", content=body, headers=headers).status_code == 200
        assert web.get("/health").status_code == web.get("/metrics").status_code == 403


def test_metrics_count_requests() -> None:
    with client(Server(policy(), uncertified=True)) as web:
        for body in ({"context": {"x": 1}}, {"context": {"x": 2}}, {}):
            web.post("/decide", json=body)
        lines = web.get("/metrics").text.splitlines()
    assert 'piwo_requests_total{path="/decide",code="200"} 2' in lines
    assert 'piwo_requests_total{path="/decide",code="422"} 1' in lines
    assert "piwo_decide_seconds_count 3" in lines


def test_the_policy_is_reloaded_and_no_request_is_dropped(tmp_path: Path) -> None:
    """Requests go on while the file is replaced, again and again, once by a damaged one."""
    path, labels = tmp_path / "p.piwo", ["a", "b"]
    Constant("a", labels).save(path)
    app = application(
        Server(path, tmp_path / "log", uncertified=True), watch=path, watch_seconds=0.005
    )

    async def requests() -> tuple[list[str], dict[str, Any]]:
        async with app.router.lifespan_context(app), connected(app) as web:

            async def until(action: str) -> list[str]:
                seen: list[str] = []
                for _ in range(2000):
                    found = await asyncio.gather(*(web.post("/decide", json={}) for _ in range(4)))
                    assert {x.status_code for x in found} == {200}
                    seen += [x.json()["action"] for x in found]
                    if seen[-1] == action:
                        return seen
                return seen

            seen = await until("a")
            Constant("b", labels).save(path)
            seen += await until("b")
            path.write_bytes(b"damaged")
            for _ in range(1000):
                await asyncio.sleep(0.005)
                health = (await web.get("/health")).json()
                if health["reload_problem"]:
                    break
            seen += await until("b")
            return seen, health

    seen, health = asyncio.run(requests())
    assert seen[0] == "a"
    assert seen[-1] == "b"
    assert "p.piwo" in health["reload_problem"]
    assert health["status"] == "ok"


def test_a_file_replaced_before_the_watch_began_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, labels = tmp_path / "p.piwo", ["a", "b"]
    Constant("a", labels).save(path)
    server = Server(path, uncertified=True)
    Constant("b", labels).save(path)
    reload, faults = server.reload, [RuntimeError("odd")]

    def failing_once(given: Path) -> None:
        if faults:
            raise faults.pop()
        reload(given)

    monkeypatch.setattr(server, "reload", failing_once)
    app = application(server, watch=path, watch_seconds=0.005)

    async def health_until(key: str, value: Any) -> None:
        async with connected(app) as web:
            for _ in range(1000):
                await asyncio.sleep(0.005)
                if (await web.get("/health")).json()[key] == value:
                    return
        raise AssertionError(key)

    async def watched() -> None:
        async with app.router.lifespan_context(app):
            # Any fault is shown, and the watch goes on.
            await health_until("reload_problem", "RuntimeError: odd")
            Constant("b", labels).save(path)
            await health_until("reload_problem", None)
            assert server.decide().action == "b"

    asyncio.run(watched())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no certificate that passes a gate; pass --uncertified"),
        (["--uncertified", "--host", "0.0.0.0"], "an address that others may reach"),
        (["--uncertified", "--context", "hour:number"], "expected COLUMN=KIND"),
        (["--uncertified", "--context", "hour=time"], "--context has 'hour': 'time'"),
        (["--uncertified", "--reward-range", "1,0"], "--reward-range"),
        (["--uncertified", "--port", "70000"], "--port is 70000, expected 0 to 65535"),
    ],
)
def test_the_command_refuses_what_cannot_be_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    policy().save(tmp_path / "p.piwo")
    assert main(["serve", str(tmp_path / "p.piwo"), "--log", str(tmp_path / "log"), *words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("piwo: error: ")
    assert message in err


def test_a_port_in_use_leaves_no_log_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy().save(tmp_path / "p.piwo")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = ["serve", str(tmp_path / "p.piwo"), "--log", str(tmp_path / "log")]
        assert main([*words, "--uncertified", "--port", port]) == 2
    assert "cannot listen at" in capsys.readouterr().err
    assert not (tmp_path / "log").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    policy().save(tmp_path / "p.piwo")
    # As after an earlier run.
    Server(policy(), tmp_path / "log", uncertified=True).close()
    words = [sys.executable, "-m", "piwo", "serve", str(tmp_path / "p.piwo")]
    words += ["--log", str(tmp_path / "log"), "--epsilon", ".05", "--port", "0", "--uncertified"]
    process = subprocess.Popen(
        words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stderr is not None
    line = process.stderr.readline()
    assert "0.05 of the decisions explores" in process.stderr.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+", line)
    assert found, line
    request = urllib.request.Request(
        f"{found[0]}/decide", json.dumps({"context": {"x": 1}}).encode(), JSON
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert json.loads(answer.read())["propensity"] > 0.02
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert f"piwo check {tmp_path / 'log'}" in out
    assert len(list((tmp_path / "log").glob("decisions-*.parquet"))) == 1
