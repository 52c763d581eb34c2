"""Draw docs/which-certificate.svg: which certificate holds, as questions from top to bottom.

python scripts/draw_certificates.py
"""

from pathlib import Path
from xml.sax.saxutils import escape

QUESTION, GOOD, BAD, NOTE = "#eef3fb", "#e9f6ec", "#fdeeee", "#fff7e6"
"""Colors of the boxes."""
LEFT, RIGHT, WIDTH, HEIGHT, STEP, TOP = 30, 545, 425, 70, 100, 30

STEPS = (
    (
        ("Were rows dropped at unknown rates,", "or is nothing known of the propensities?"),
        (BAD, "None is valid: repair the log", "piwo check reports what is wrong"),
    ),
    (
        ("Are the propensities estimated,", "or known only up to a factor?"),
        (
            GOOD,
            "Allow for it, and go on: Log.with_propensity_error",
            "what needs the exact propensities is refused",
        ),
    ),
    (
        ("Was the policy made", "without looking at this log?"),
        (
            GOOD,
            "evaluate; of several: compare, select",
            "value, and improvement over logger or baseline",
        ),
    ),
    (
        ("Is it from a finite list that was", "written down before the log was seen?"),
        (
            GOOD,
            "In-sample: pays the log of the list's length",
            "PIWOGrid with Exhaustive; a mixture: PACBayes",
        ),
    ),
    (
        ("Can a mixture of linear", "policies be deployed?"),
        (
            GOOD,
            "PAC-Bayes: pays the divergence from a prior",
            "PACBayesLinear; GibbsLinear is held-out",
        ),
    ),
    (
        ("Is the policy that will run", "learned again from all rows?"),
        (
            BAD,
            "Nothing is proved about that policy",
            "the default of Auto, and of piwo learn without --gate",
        ),
    ),
)
"""Question, and what holds where the answer is yes; no goes on below."""
LAST = (
    GOOD,
    "Held-out: pays for every candidate",
    "Auto(refit=False), piwo learn --gate, PIWO, certify",
)
BESIDE = (
    NOTE,
    "Will more rows come, and be looked at?",
    "fix the horizon before the first look, whichever it is",
)
SECOND = {1: "no, or allowed for"}
"""Words beside the way down, where they are not just "no"."""


def box(x: int, y: int, color: str, first: str, second: str, *, bold: bool) -> list[str]:
    """A box with two lines of text."""
    weight = ' font-weight="bold"' if bold else ""
    middle = x + WIDTH / 2
    style = f'rx="8" fill="{color}" stroke="#444"'
    return [
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" {style}/>',
        f'<text x="{middle}" y="{y + 30}" text-anchor="middle"{weight}>{escape(first)}</text>',
        f'<text x="{middle}" y="{y + 50}" text-anchor="middle">{escape(second)}</text>',
    ]


def arrow(path: str, x: float, y: float, word: str, anchor: str) -> list[str]:
    """An arrow with a word next to it."""
    style = 'fill="#222" font-style="italic"'
    return [
        f'<path d="{path}" stroke="#444" fill="none" marker-end="url(#tip)"/>',
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" {style}>{word}</text>',
    ]


def picture() -> str:
    """The picture, as SVG."""
    height = TOP + STEP * len(STEPS) + HEIGHT + TOP
    size = f'viewBox="0 0 1000 {height}" width="1000" height="{height}"'
    font = 'font-family="Liberation Sans, Arial, Helvetica, sans-serif" font-size="15"'
    tip = (
        'id="tip" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="8" markerHeight="8" orient="auto"'
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        "<title>Which certificate should I use?</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<defs><marker {tip}><path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>',
    ]
    for row, (question, (color, first, second)) in enumerate(STEPS):
        y = TOP + STEP * row
        lines += box(LEFT, y, QUESTION, *question, bold=False)
        lines += box(RIGHT, y, color, first, second, bold=True)
        across, down = y + HEIGHT // 2, LEFT + WIDTH // 2
        lines += arrow(
            f"M{LEFT + WIDTH},{across} L{RIGHT - 2},{across}",
            (LEFT + WIDTH + RIGHT) / 2,
            across - 6,
            "yes",
            "middle",
        )
        lines += arrow(
            f"M{down},{y + HEIGHT} L{down},{y + STEP - 2}",
            down + 12,
            y + HEIGHT + 20,
            SECOND.get(row, "no"),
            "start",
        )
    y = TOP + STEP * len(STEPS)
    lines += [*box(LEFT, y, *LAST, bold=True), *box(RIGHT, y, *BESIDE, bold=True), "</svg>"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    target = Path(__file__).resolve().parent.parent / "docs" / "which-certificate.svg"
    target.write_text(picture(), encoding="utf-8")
