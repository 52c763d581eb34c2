"""What the site makes of docstrings: examples as code, and links to the pages that they cite.

An extension of Griffe, which reads the docstrings for mkdocs.yml. Our examples have no heading of
their own, so that Markdown would take `>>>` for a quotation of a quotation.
"""

import re
from typing import Any

import griffe

CITED = re.compile(r"docs/([\w/-]+)\.md(?!\))")


class Docstrings(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    r"""The docstring with its examples in fences, and `docs/theory.md` as a link.

    >>> as_markdown("Say.\n\n>>> 1 + 1\n2")
    'Say.\n\n```pycon\n>>> 1 + 1\n2\n```'
    >>> as_markdown("Source: docs/theory.md.")
    'Source: [docs/theory.md](../theory.md).'
    """
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        if inside and not line.strip():
            lines.append("```")
            inside = False
        if not inside and line.startswith(">>>"):
            lines.append("```pycon")
            inside = True
        lines.append(line if inside else prose(line))
    if inside:
        lines.append("```")
    return "\n".join(lines)


def prose(line: str) -> str:
    r"""A line outside of examples: cited pages become links, and nothing a quotation.

    >>> prose("    temperature: > 0")
    '    temperature: \\> 0'
    """
    return re.sub(r"^(\s*(?:\w+: )?)>", r"\1\>", CITED.sub(r"[\g<0>](../\1.md)", line))
