"""What the site makes of pages: those of the reference are kept small, so that they open quickly.

A hook of mkdocs. The theme writes the contents of a page twice, once for narrow screens. With a
line for each field and method, these and empty lines were a third of a page.
"""

import re
from typing import Any

PRE = re.compile(r"(<pre\b.*?</pre>)", re.DOTALL)
BLANK = re.compile(r"\s*\n\s*")


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Without fields and methods in the contents of a reference page: its names alone."""
    if page.file.src_uri.startswith("reference/"):
        for title in page.toc:
            for name in title.children:
                name.children.clear()
    return html


def on_post_page(output: str, **_: Any) -> str:
    """Without indentation and empty lines."""
    return squeezed(output)


def squeezed(html: str) -> str:
    r"""A page without indentation and empty lines, except in blocks of code.

    >>> squeezed("<ul>\n\n  <li>one</li>\n</ul><pre>1\n\n 2</pre>")
    '<ul>\n<li>one</li>\n</ul><pre>1\n\n 2</pre>'
    """
    parts = PRE.split(html)
    return "".join(part if part.startswith("<pre") else BLANK.sub("\n", part) for part in parts)
