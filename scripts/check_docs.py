"""House rules on the pages: the reference lists every public name, the site every page.

Every name in `piwo.__all__` stands in `docs/reference.md`, as code. CHANGELOG.md has a section for
the version in `src/piwo/_version.py`. The reference is checked from the day that `docs/` exists.
The navigation in `mkdocs.yml` lists every page below `docs/`, and `docs/reference/` has the
docstrings of every public name of the package, and a page for each package in it that is public.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from house import Finding, main, parse

RULE = "docs/reference.md names all of piwo.__all__, mkdocs.yml all pages, CHANGELOG.md the version"


def constant(path: Path, name: str) -> object:
    """The literal that a module assigns to a name; None if it assigns none."""
    tree, _ = parse(path)
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return ast.literal_eval(node.value)
    return None


def check(root: Path) -> Iterator[Finding]:
    """Names that the reference lacks, and a version that the changelog lacks."""
    package = root / "src" / "piwo"
    version = constant(package / "_version.py", "__version__")
    changelog = root / "CHANGELOG.md"
    history = changelog.read_text(encoding="utf-8") if changelog.exists() else ""
    if not re.search(rf"^## .*{re.escape(str(version))}", history, re.MULTILINE):
        yield Finding(changelog, 1, f"no section for version {version}")

    if not (root / "docs").is_dir():
        print("check_docs: docs/ is not written yet; the reference is not checked")
        return
    reference = root / "docs" / "reference.md"
    if not reference.exists():
        yield Finding(reference, 1, "docs/ exists, but has no reference.md")
        return
    text = reference.read_text(encoding="utf-8")
    public = constant(package / "__init__.py", "__all__") or ()
    if not isinstance(public, list | tuple):
        raise TypeError(f"piwo.__all__ is {public!r}, expected a literal list or tuple of names")
    for name in public:
        if not re.search(rf"`[^`\n]*\b{re.escape(name)}\b[^`\n]*`", text):
            yield Finding(reference, 1, f"`piwo.{name}` is public but not described")
    yield from check_navigation(root)
    yield from check_docstring_pages(root, public)


def check_docstring_pages(root: Path, public: Iterable[object]) -> Iterator[Finding]:
    """Public packages without a page that holds their docstrings."""
    if not (root / "mkdocs.yml").exists():
        return
    package = root / "src" / "piwo"
    homes = {}
    for name in public:
        if (package / str(name) / "__init__.py").exists():
            homes[str(name)] = f"piwo.{name}"
    for name, full in homes.items():
        page = root / "docs" / "reference" / f"{name}.md"
        if not page.exists() or f"\n::: {full}\n" not in page.read_text(encoding="utf-8"):
            yield Finding(page, 1, f"write a page with the line `::: {full}`")
        else:
            yield from check_split_pages(root, name)
    # The names of the package itself are on several pages, so that each of them loads quickly.
    pages = sorted((root / "docs" / "reference").glob("piwo*.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    for name in public:
        full = f"piwo.{name}"
        if f"\n::: {full}\n" not in text and f'id="{full}"' not in text and name != "__version__":
            page = root / "docs" / "reference" / "piwo.md"
            yield Finding(page, 1, f"write the line `::: {full}` on a page docs/reference/piwo*.md")


def check_split_pages(root: Path, name: str) -> Iterator[Finding]:
    """Names of a public package that none of its pages lists, if it has several."""
    pages = [root / "docs" / "reference" / f"{name}.md"]
    pages += sorted(pages[0].parent.glob(f"{name}-*.md"))
    if len(pages) == 1:
        return
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    public = constant(root / "src" / "piwo" / name / "__init__.py", "__all__") or ()
    assert isinstance(public, list | tuple)
    for one in public:
        if f"\n        - {one}\n" not in text and f'id="piwo.{name}.{one}"' not in text:
            listed = " or ".join(page.name for page in pages)
            yield Finding(pages[0], 1, f"add `{one}` to the members of {listed}")


def check_navigation(root: Path) -> Iterator[Finding]:
    """Pages that the site would leave out of its navigation."""
    site = root / "mkdocs.yml"
    if not site.exists():
        return
    listed = set(re.findall(r":\s(\S+\.md)$", site.read_text(encoding="utf-8"), re.MULTILINE))
    for page in sorted((root / "docs").rglob("*.md")):
        name = page.relative_to(root / "docs").as_posix()
        if name not in listed:
            yield Finding(page, 1, f"give the page a place in the nav of mkdocs.yml: {name}")


if __name__ == "__main__":
    main(RULE, check)
