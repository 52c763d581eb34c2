"""The web application: /decide, /reward, /health and /metrics over a `Server`.

Needs the extra `piwo[serve]`. Decisions that wait for the disk at the same time are written
together, with one synchronization.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from piwo._version import __version__
from piwo.checks import each_once
from piwo.errors import FileError, PiwoError, UsageError
from piwo.messages import argument, arguments_shown
from piwo.policies import Policy
from piwo.serve.log_writer import LogWriter
from piwo.serve.server import FileState, Server, features_of, file_state

__all__ = ["MOST_BYTES", "application", "require_port", "run"]

MOST_BYTES = 2**16
"""Most bytes of the body of a request."""
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Upper ends of the classes of the histogram in /metrics."""
_FULL = "the log cannot be written; nothing was logged"
_CLOSED = "the server is closed; nothing was logged"
_JSON = "application/json"
_KINDS = {type(None): "null", bool: "a boolean", str: "a text", list: "a list"}
"""Type of a JSON value that is no object -> what an error calls it; others are numbers."""
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_Result = tuple[int, dict[str, Any]]


class _Batches:
    """Writes what several requests have to log, together, in a thread."""

    def __init__(self, write: Callable[[Sequence[Mapping[str, Any]]], None]) -> None:
        self._write = write
        self._waiting: list[tuple[Mapping[str, Any], asyncio.Future[None]]] = []
        self._running: asyncio.Task[None] | None = None

    async def put(self, row: Mapping[str, Any]) -> None:
        """Return when the row is on the disk.

        Raises:
            FileError: if it is not.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, done))
        if self._running is None:
            self._running = asyncio.create_task(self._work())
        await done

    async def _work(self) -> None:
        # Whoever arrives while one batch is being written is in the next.
        while self._waiting:
            some, self._waiting = self._waiting, []
            problem: Exception | None = None
            try:
                await asyncio.to_thread(self._write, [row for row, _ in some])
            except Exception as cause:  # noqa: BLE001 (each request reports it)
                problem = cause
            for _, done in some:
                if done.done():
                    # Its client has gone; the row is in the log all the same.
                    continue
                if problem is None:
                    done.set_result(None)
                else:
                    done.set_exception(problem)
        self._running = None


class _Counts:
    """What /metrics reports."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.classes = [0] * (len(_SECONDS) + 1)
        self.seconds = 0.0
        self.unseen = self.reloads = 0

    def note(self, path: str, code: int, seconds: float) -> None:
        """Count one request."""
        self.requests[path, code] += 1
        if path == "/decide":
            place = sum(seconds > end for end in _SECONDS)
            self.classes[place] += 1
            self.seconds += seconds

    def text(self) -> str:
        """Return the counts as Prometheus reads them; labels are paths and codes alone."""
        lines = ["# TYPE piwo_requests_total counter"]
        for (path, code), count in sorted(self.requests.items()):
            lines.append(f'piwo_requests_total{{path="{path}",code="{code}"}} {count}')
        lines.append("# TYPE piwo_decide_seconds histogram")
        running = 0
        for end, count in zip((*map(str, _SECONDS), "+Inf"), self.classes, strict=True):
            running += count
            lines.append(f'piwo_decide_seconds_bucket{{le="{end}"}} {running}')
        lines.append(f"piwo_decide_seconds_sum {self.seconds:.6f}")
        lines.append(f"piwo_decide_seconds_count {running}")
        lines.append("# TYPE piwo_unseen_levels_total counter")
        lines.append(f"piwo_unseen_levels_total {self.unseen}")
        lines.append("# TYPE piwo_reloads_total counter")
        lines.append(f"piwo_reloads_total {self.reloads}")
        return "\n".join(lines) + "\n"


class _Site:
    """The answers of the application, apart from HTTP: each is a code and a JSON object."""

    def __init__(self, server: Server, watched: Path | None, watch_seconds: float) -> None:
        self.server = server
        self.counts = _Counts()
        self.decisions = _Batches(_writer(server.log, "decisions"))
        self.rewards = _Batches(_writer(server.log, "rewards"))
        self.log_problem: str | None = None
        self.reload_problem: str | None = None
        self._watched, self._watch_seconds = watched, watch_seconds
        self._known: FileState = None
        if watched is not None:
            # Of before the policy was loaded: it may have been replaced since then.
            self._known = server.loaded.get(watched) or file_state(watched)

    async def decide(self, body: Mapping[str, Any]) -> _Result:
        """Return an action, after it was logged."""
        _only(body, "context", "eligible", "items")
        context = _context(body, self.server.policy)
        chosen = self.server.choose(context, body.get("eligible"), body.get("items"))
        self.counts.unseen += chosen.unseen
        if self.server.log is not None:
            await self.decisions.put(chosen.row)
        return 200, chosen.choice._asdict()

    async def reward(self, body: Mapping[str, Any]) -> _Result:
        """Return nothing, after the reward was logged."""
        _only(body, "decision_id", "reward")
        row = self.server.reward_row(body.get("decision_id", ""), body.get("reward", ""))
        if self.server.log is None:
            raise UsageError("this server keeps no log of rewards")
        await self.rewards.put(row)
        return 200, {"logged": True}

    async def health(self) -> _Result:
        """Return whether decisions can be made and logged."""
        log = self.server.log
        if log is not None and self.log_problem is not None:
            # A load balancer sends no decisions here until this answer is good.
            try:
                await asyncio.to_thread(log.check_room)
                self.log_problem = None
            except FileError as cause:
                self.log_problem = str(cause)
        found = {
            "status": "ok",
            "piwo": __version__,
            "policy": self.server.policy.kind,
            "policy_name": self.server.policy_name,
            "actions": len(self.server.policy.actions),
            "caution": self.server.caution,
            "log_problem": self.log_problem,
            "reload_problem": self.reload_problem,
            "unfinished": log is not None and log.problem is not None,
        }
        if self.server.closed:
            found["status"] = "the server is closed"
            return 503, found
        if self.log_problem is not None:
            found["status"] = "the log cannot be written"
            return 503, found
        return 200, found

    async def answer(
        self, path: str, work: Callable[[Any], Any], read: Callable[[], Any]
    ) -> _Result:
        """Return the answer to a request with a body, errors included, and count it."""
        start = time.perf_counter()
        code, found = 500, {"error": "internal error"}
        try:
            code, found = await work(_parsed(await read()))
            self.log_problem = None
        except _NotJSONError:
            code, found = 415, {"error": f"the Content-Type is not {_JSON}"}
        except _TooLargeError:
            code, found = 413, {"error": f"the body has more than {MOST_BYTES} bytes"}
        except FileError as cause:
            # Paths are for those who run the server, not for its clients.
            self.log_problem = str(cause)
            code, found = 503, {"error": _FULL}
        except PiwoError as cause:
            # In the words of a request, also if the command prints its own in those of options.
            with arguments_shown(_as_field):
                code, found = 422, {"error": str(cause)}
            if self.server.closed:
                code, found = 503, {"error": _CLOSED}
        finally:
            self.counts.note(path, code, time.perf_counter() - start)
        return code, found

    async def watch(self) -> None:
        """Reload the policy when its file changes; requests meanwhile use the old one."""
        assert self._watched is not None
        while True:
            await asyncio.sleep(self._watch_seconds)
            now = file_state(self._watched)
            if now is None or now == self._known:
                continue
            self._known = now
            try:
                await asyncio.to_thread(self.server.reload, self._watched)
                self.reload_problem = None
                self.counts.reloads += 1
            except PiwoError as cause:
                self.reload_problem = str(cause)
            except Exception as cause:  # noqa: BLE001 (the next file must be loaded all the same)
                self.reload_problem = f"{type(cause).__name__}: {cause}"

    @asynccontextmanager
    async def running(self, _: Any) -> AsyncIterator[None]:
        """Watch the policy file while the application runs; finish the log at its end."""
        task = None
        if self._watched is not None:
            task = asyncio.create_task(self.watch())
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
            await asyncio.to_thread(self.server.close)


class _NotJSONError(Exception):
    """A request does not say that its body is JSON."""


class _TooLargeError(Exception):
    """The body of a request is larger than `MOST_BYTES`."""


def application(
    server: Server,
    *,
    watch: str | Path | None = None,
    watch_seconds: float = 2.0,
    local: bool = False,
) -> Any:
    """Return the FastAPI application that serves decisions.

    Args:
        server: what decides.
        watch: a policy file; when it is replaced, its policy decides. None: none.
        watch_seconds: how often to look at it.
        local: whether to answer only requests whose Host header names this machine (localhost,
            127.0.0.1, [::1]); a web page that gives its own name this address is then refused.

    Returns:
        An ASGI application with the paths /decide, /reward, /health and /metrics. When it shuts
        down, it closes the server.

    Raises:
        UsageError: without the extra `piwo[serve]`.

    >>> from piwo.policies import Uniform
    >>> app = application(Server(Uniform(["a", "b"]), uncertified=True))
    >>> sorted(route.path for route in app.routes)
    ['/decide', '/health', '/metrics', '/reward']
    """
    try:
        from fastapi import FastAPI
        from fastapi.responses import PlainTextResponse, Response
    except ImportError:
        raise UsageError("the application needs FastAPI; run: pip install 'piwo[serve]'") from None
    watched = None if watch is None else Path(watch)
    site = _Site(server, watched, watch_seconds)
    app = FastAPI(
        title="piwo", docs_url=None, redoc_url=None, openapi_url=None, lifespan=site.running
    )

    def response(found: _Result) -> Any:
        code, page = found
        # A label such as <script> stays a JSON text, whatever a browser would make of it.
        text = json.dumps(page, separators=(",", ":"), allow_nan=False)
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
        return Response(text, code, headers, _JSON)

    def guarded(handle: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def checked(request: Any) -> Any:
            if local and not _is_local(request.headers.get("host", "")):
                return response((403, {"error": "the Host header does not name this machine"}))
            return await handle(request)

        return checked

    async def decide(request: Any) -> Any:
        return response(await site.answer("/decide", site.decide, lambda: _body(request)))

    async def reward(request: Any) -> Any:
        return response(await site.answer("/reward", site.reward, lambda: _body(request)))

    async def health(_: Any) -> Any:
        return response(await site.health())

    async def metrics(_: Any) -> Any:
        return PlainTextResponse(site.counts.text())

    # Plain routes: bodies are checked here, and FastAPI's own checks take as long as a decision.
    app.add_route("/decide", guarded(decide), ["POST"])
    app.add_route("/reward", guarded(reward), ["POST"])
    app.add_route("/health", guarded(health), ["GET"])
    app.add_route("/metrics", guarded(metrics), ["GET"])
    return app


def run(
    server: Server,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    watch: str | Path | None = None,
    shared: bool = False,
    listening: Callable[[str], None] | None = None,
) -> None:
    """Serve until the process is interrupted; then finish requests and the log.

    Args:
        server: what decides.
        host: the address to listen at; the default is reached from this machine alone.
        port: 0: any free one.
        watch: see `application`.
        shared: whether other processes of this user that say so, too, may listen at the same port:
            the system divides the connections among them (Linux).
        listening: called with the address, such as http://127.0.0.1:8000, once it is open.

    Raises:
        UsageError: without the extra `piwo[serve]`, and for an address that cannot be used.

    >>> from piwo.policies import Uniform
    >>> run(Server(Uniform(["a", "b"]), uncertified=True), port=70_000)
    Traceback (most recent call last):
    piwo.errors.UsageError: port is 70000, expected 0 to 65535
    """
    try:
        import uvicorn
    except ImportError:
        raise UsageError("serving needs uvicorn; run: pip install 'piwo[serve]'") from None
    require_port(host, port, shared)
    opened = _bound(host, port, shared)
    with opened:
        opened.listen(2048)
        local = ipaddress.ip_address(opened.getsockname()[0]).is_loopback
        app = application(server, watch=watch, local=local)
        if listening is not None:
            shown = f"[{host}]" if ":" in host else host
            listening(f"http://{shown}:{opened.getsockname()[1]}")
        config = uvicorn.Config(
            app,
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=10,
        )
        # uvicorn raises it again after it has shut down.
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[opened])


def require_port(host: str, port: int, shared: bool) -> None:
    """Raise for an address that cannot be used; nothing listens there afterwards.

    Raises:
        UsageError: saying why.
    """
    if not 0 <= port < 2**16:
        raise UsageError(f"{argument('port')} is {port!r}, expected 0 to 65535")
    # bound and not listening, so that no connection comes to it
    _bound(host, port, shared).close()


def _bound(host: str, port: int, shared: bool) -> socket.socket:
    """Return a socket at an address, which does not listen yet.

    Raises:
        UsageError: for an address that cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends answers at once (TCP_NODELAY) only if the protocol is stated.
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name != "nt":
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            opened.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_REUSEPORT", 0), 1)
        opened.bind((host, port))
    except OSError as cause:
        opened.close()
        raise UsageError(
            f"cannot listen at {host!r}, port {port}: {cause}; choose another {argument('port')}"
        ) from None
    return opened


async def _body(request: Any) -> bytes:
    """Return the body of a request; reading stops when it is too large."""
    # A web page of another site can send other types without asking first, but not this one.
    stated = request.headers.get("content-type", "").partition(";")[0]
    if stated.strip().lower() != _JSON:
        raise _NotJSONError
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > MOST_BYTES:
            raise _TooLargeError
    return bytes(found)


def _parsed(data: bytes) -> dict[str, Any]:
    """Return the JSON object of a body.

    Raises:
        UsageError: if it is none.
    """
    try:
        found = json.loads(data, object_pairs_hook=each_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError("the body is not a JSON object with finite numbers and each key once")
    return found


def _no_constant(text: str) -> None:
    raise ValueError(text)


def _as_field(name: str, value: str | None) -> str:
    """Return an argument of a message as the field of a request.

    >>> _as_field("value", None), _as_field("eligible", None)
    ('reward', 'eligible')
    """
    name = {"value": "reward"}.get(name, name)
    if value is None:
        return name
    return f"{name}={value}"


def _only(body: Mapping[str, Any], *names: str) -> None:
    """Raise for keys that a request does not have."""
    odd = sorted(body.keys() - set(names))
    if odd:
        advice = ""
        if "context" in names:
            advice = '; put the columns of the context inside of "context": {...}'
        raise UsageError(
            f"the body has the key {odd[0]!r:.80}, expected {', '.join(names[:-1])} and "
            f"{names[-1]}{advice}"
        )


def _context(body: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Return the context of a request; an empty one if it has none and the policy needs none.

    Raises:
        UsageError: for one that is missing, and for what is not a JSON object.
    """
    found = body.get("context", {})
    problem = "the body has no key 'context'"
    if not isinstance(found, dict):
        problem = f"the context is {_KINDS.get(type(found), 'a number')}"
    elif "context" in body or not features_of(policy).columns:
        return found
    columns = features_of(policy).columns
    shown = json.dumps({"context": dict.fromkeys(columns[:8], "...")})
    raise UsageError(
        f"{problem}, expected a JSON object with the columns that the policy looks at "
        f"({len(columns)}); send {shown}"
    )


def _writer(
    log: LogWriter | None, piece: Literal["decisions", "rewards"]
) -> Callable[[Sequence[Mapping[str, Any]]], None]:
    """Return the method that writes rows of a kind."""
    if log is None:
        return lambda _: None
    if piece == "decisions":
        return log.decisions
    return log.rewards


def _is_local(host: str) -> bool:
    """Whether a Host header names this machine."""
    name, sign, port = host.rpartition(":")
    if sign and port.isdigit():
        host = name
    return host.lower() in _LOCAL_NAMES
