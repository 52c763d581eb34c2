"""Print the oldest versions that pyproject.toml allows, as constraints for `make oldest`."""

import re
import tomllib
from pathlib import Path


def main() -> None:
    text = (
        Path(__file__)
        .resolve()
        .parent.parent.joinpath("pyproject.toml")
        .read_text(encoding="utf-8")
    )
    project = tomllib.loads(text)
    needed = (
        project["project"]["dependencies"] + project["project"]["optional-dependencies"]["test"]
    )
    for requirement in needed:
        found = re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement)
        if found is None:
            raise SystemExit(
                f"pyproject.toml: {requirement!r} has no floor; write it as name>=version"
            )
        print(f"{found[1]}=={found[2]}.*" if found[2].count(".") < 2 else f"{found[1]}=={found[2]}")


if __name__ == "__main__":
    main()
