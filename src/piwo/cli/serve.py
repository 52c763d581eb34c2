"""`piwo serve`: decisions of a policy over HTTP, with their log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

import piwo
from piwo.cli.answer import Answer, next_lines
from piwo.cli.interrupts import goes_on
from piwo.cli.log_options import range_of, whole
from piwo.cli.notices import on_stderr
from piwo.cli.shared_options import DEFAULT_OUTPUT, OutputOptions
from piwo.errors import UsageError

__all__ = ["ServeOptions", "serve"]

_LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})


@Parameter(name="*", group=Group("Serve", sort_key=1))
@dataclass(frozen=True)
class ServeOptions:
    """How decisions are made, logged and reached."""

    epsilon: Annotated[
        float,
        Parameter(
            help="Explore: take a uniformly random action in this fraction E of the decisions, "
            "(1 - E) pi + E/K. The propensities are those of this mixture.",
            show=True,
        ),
    ] = 0.0
    full: Annotated[
        bool, Parameter(help="Log the probabilities of all actions, not only of the one taken.")
    ] = False
    reward_range: Annotated[
        str | None,
        Parameter(
            help="Range LO,HI of the reward. [default: that of the folder, 0,1 of a new one]",
            show=True,
            allow_leading_hyphen=True,
        ),
    ] = None
    context: Annotated[
        str | None,
        Parameter(
            help="Columns of the context to log besides those of the policy, each a number, text "
            "or vector: hour=number,shop=text.",
            show=True,
        ),
    ] = None
    window: Annotated[
        float | None,
        Parameter(
            help="Seconds after a decision in which a reward counts; the log is read without "
            "decisions for which they are not over. [default: a reward counts at any time]",
            show=True,
        ),
    ] = None
    absent: Annotated[
        float | None,
        Parameter(
            help="What a decision without a reward earned. [default: the lower end of the range]"
        ),
    ] = None
    several: Annotated[
        Literal["first", "last", "sum", "max"] | None,
        Parameter(help="What several rewards of one decision mean. [default: first]"),
    ] = None
    unit: Annotated[
        str | None,
        Parameter(help="Value of the context to log, whose decisions depend on each other."),
    ] = None
    host: Annotated[
        str, Parameter(help="Address to listen at. The default is reached from this machine alone.")
    ] = "127.0.0.1"
    port: Annotated[int, Parameter(help="Port to listen at.", show=True, converter=whole)] = 8000
    shared_port: Annotated[
        bool,
        Parameter(
            help="Let several such processes listen at the same port, one a core, with one log "
            "folder; the system divides the connections (Linux)."
        ),
    ] = False
    uncertified: Annotated[
        bool, Parameter(help="Serve a policy without a certificate that passes a gate.", show=True)
    ] = False
    open_to_network: Annotated[
        bool,
        Parameter(help="Allow an address that others reach. There is no password: use a proxy."),
    ] = False


NO_SERVE = ServeOptions()


def serve(
    file: Annotated[
        str, Parameter(help="A policy file. It is reloaded when it is replaced.", show=True)
    ],
    /,
    *,
    folder: Annotated[
        # Not a path, which is a file that is replaced.
        str,
        Parameter(
            name="--log",
            help="Folder for the log, made if there is none; read it: piwo check FOLDER.",
            show=True,
        ),
    ],
    options: ServeOptions = NO_SERVE,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> Answer:
    """Serve the decisions of a policy over HTTP, and log them with their rewards."""
    if options.host not in _LOCAL and not options.open_to_network:
        raise UsageError(
            f"--host got {options.host!r}, an address that others may reach, and there is no "
            "password; use 127.0.0.1 behind a proxy, or give --open-to-network"
        )
    policy = piwo.serve.served_policy(file, options.uncertified)
    # Importing it takes a while. This is before a folder is made for the log.
    from piwo.serve.app import require_port

    require_port(options.host, options.port, options.shared_port)
    reward_range = None
    if options.reward_range is not None:
        reward_range = range_of(options.reward_range, "--reward-range")
    writer = piwo.serve.LogWriter(
        folder,
        policy.actions,
        piwo.serve.features_of(policy),
        also=_columns(options.context),
        items=piwo.serve.item_columns(policy),
        reward_range=reward_range,
        window=options.window,
        absent=options.absent,
        several=options.several,
        unit=options.unit,
    )
    # From the file again, to notice if it is replaced in the meantime.
    server = piwo.serve.Server(
        file,
        writer,
        epsilon=options.epsilon,
        full=options.full,
        uncertified=options.uncertified,
    )

    def listening(address: str) -> None:
        if not output.quiet:
            on_stderr(f"piwo: decisions at {address}, logged in {folder}; stop with Ctrl-C")
            if server.caution is not None:
                on_stderr(f"piwo: {server.caution}")

    piwo.serve.run(
        server,
        host=options.host,
        port=options.port,
        watch=file,
        shared=options.shared_port,
        listening=listening,
    )
    # Ctrl-C is how a server is stopped, and no error.
    goes_on()
    words = ["piwo", "check", folder]
    return Answer(
        "\n".join([f"the log is in {folder}\n", *next_lines(words)]),
        {"policy": file, "log": folder},
    )


def _columns(text: str | None) -> dict[str, str]:
    """Return column -> kind of --context.

    >>> _columns("hour=number, shop=text")
    {'hour': 'number', 'shop': 'text'}
    """
    found: dict[str, str] = {}
    for entry in (text or "").split(","):
        name, sign, kind = entry.rpartition("=")
        if sign:
            found[name.strip()] = kind.strip()
        elif entry.strip():
            raise UsageError(
                f"--context got {entry!r:.80}, expected COLUMN=KIND, such as hour=number"
            )
    return found
