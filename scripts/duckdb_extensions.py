"""Run the tests of addresses, and others that read by DuckDB, with a DuckDB that has its extension.

An extension belongs to one version of DuckDB, and package registries may hold none for the newest.
So a DuckDB that has it is installed into a folder of its own, in front of the environment's, with
the extension in a home of its own.

    python scripts/duckdb_extensions.py FOLDER [arguments for pytest]
"""

import os
import subprocess
import sys
from pathlib import Path

VERSION = "1.5.5"  # the newest DuckDB whose extension is a wheel
PACKAGES = (f"duckdb=={VERSION}", f"duckdb-extension-httpfs=={VERSION}")
TESTS = ("test_remote.py", "test_databases.py", "test_filters.py")


def put(packages: Path) -> str | None:
    """Install the packages into a folder; return the reason if that fails."""
    done = packages / VERSION
    if done.exists():
        return None
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    words += ["--only-binary", ":all:"]
    made = subprocess.run(
        [*words, "--target", str(packages), *PACKAGES], check=False, capture_output=True, text=True
    )
    if made.returncode:
        return next(
            (x for x in reversed(made.stderr.splitlines()) if x.startswith("ERROR")), "pip failed"
        )
    done.touch()
    return None


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    packages, home = folder / "packages", folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    reason = put(packages)
    if reason is not None:
        print(f"NOT RUN: tests of DuckDB's extension; they need {', '.join(PACKAGES)} ({reason})")
        return 0
    environment = {**os.environ, "PYTHONPATH": str(packages), "HOME": str(home)}
    files = list(packages.glob(f"*/extensions/v{VERSION}/httpfs.duckdb_extension"))
    if len(files) != 1:
        print(f"got {len(files)} extensions in {packages}, expected 1; remove {folder} and retry")
        return 1
    code = "import duckdb, sys; duckdb.execute(f\"install '{sys.argv[1]}'\")"
    subprocess.run([sys.executable, "-c", code, str(files[0])], env=environment, check=True)
    words = [sys.executable, "-m", "pytest", *(f"tests/sources/{x}" for x in TESTS)]
    return subprocess.run([*words, *sys.argv[2:]], check=False, env=environment).returncode


if __name__ == "__main__":
    raise SystemExit(main())
