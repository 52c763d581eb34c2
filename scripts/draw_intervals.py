"""Draw docs/demo-intervals.svg: estimates, intervals and true values of policies on the demo log.

python scripts/draw_intervals.py
"""

from dataclasses import dataclass
from pathlib import Path

import piwo

LEFT, RIGHT, TOP, STEP, WIDTH = 190, 650, 54, 44, 720
"""Pixels: where the value 0 and the value 1 lie, the first row, the distance of rows, all."""
BLUE, INK, GREY = "#2b6cb0", "#222", "#888"


@dataclass(frozen=True)
class Row:
    """One policy: what the log says of it, and its true value."""

    name: str
    value: float
    lower: float
    upper: float | None
    """None: a certificate, which has only a lower bound."""
    truth: float


def rows() -> tuple[list[Row], float]:
    """The policies of the demo, and the true value of the logging policy."""
    from sklearn.datasets import load_digits

    digits, labels = load_digits(return_X_y=True)
    bandit = piwo.simulate.ClassificationBandit(digits, labels)
    logger = bandit.softmax_logger(3.0)
    greedy = piwo.policies.LinearGreedy(
        logger.coef, logger.intercept, bandit.actions, bandit.features
    )
    log = bandit.log(logger, rows=20_000, random_state=0)
    policies = {
        "uniform": piwo.policies.Uniform(log.actions),
        "constant: 1": piwo.policies.Constant(1, log.actions),
        "greedy logger": greedy,
    }
    found = piwo.compare(log, policies)
    made = [
        Row(name, one.value, one.lower, one.upper, bandit.value(policies[name]))
        for name, one in found.items()
    ]
    learner = piwo.PIWOGrid().fit(log)
    certificate = learner.certificate_
    truth = bandit.value(learner.policy_)
    made.append(Row("learned", certificate.value, certificate.value_lower, None, truth))
    return made, bandit.value(logger)


def at(value: float) -> float:
    """Pixels from the left."""
    return round(LEFT + (RIGHT - LEFT) * value, 1)


def drawn(row: Row, y: int) -> list[str]:
    """One policy as a line, a dot for the estimate and a diamond for the truth."""
    end = at(1.0 if row.upper is None else row.upper)
    start = at(row.lower)
    dashed = "" if row.upper is not None else ' stroke-dasharray="2 4"'
    middle = start if row.upper is None else end
    x = at(row.truth)
    lines = [
        f'<text x="{LEFT - 14}" y="{y + 5}" text-anchor="end">{row.name}</text>',
        f'<path d="M{start},{y} H{middle}" stroke="{BLUE}" stroke-width="4"/>',
        f'<path d="M{start},{y - 7} V{y + 7}" stroke="{BLUE}" stroke-width="2"/>',
        f'<circle cx="{at(row.value)}" cy="{y}" r="5" fill="{BLUE}"/>',
        f'<path d="M{x},{y - 7} l6,7 l-6,7 l-6,-7 z" fill="none" stroke="{INK}"/>',
    ]
    if row.upper is None:
        lines.append(f'<path d="M{start},{y} H{end}" stroke="{BLUE}" stroke-width="2"{dashed}/>')
    else:
        lines.append(f'<path d="M{end},{y - 7} V{y + 7}" stroke="{BLUE}" stroke-width="2"/>')
    return lines


def picture() -> str:
    """The picture, as SVG."""
    found, logged = rows()
    bottom = TOP + STEP * len(found)
    height = bottom + 60
    font = 'font-family="Liberation Sans, Arial, Helvetica, sans-serif" font-size="15"'
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} fill="{INK}">',
        "<title>Estimates, 95 % intervals and true values on the demo log</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<path d="M{at(logged)},{TOP - 26} V{bottom}" stroke="{GREY}" stroke-dasharray="5 4"/>',
        f'<text x="{at(logged) + 6}" y="{TOP - 20}" fill="{GREY}">logging policy</text>',
    ]
    for i, row in enumerate(found):
        lines += drawn(row, TOP + STEP * i + STEP // 2)
    lines.append(f'<path d="M{LEFT},{bottom} H{RIGHT}" stroke="{INK}"/>')
    for tenth in range(0, 11, 2):
        x = at(tenth / 10)
        lines.append(f'<path d="M{x},{bottom} v6" stroke="{INK}"/>')
        lines.append(f'<text x="{x}" y="{bottom + 22}" text-anchor="middle">{tenth / 10:g}</text>')
    key = "● estimate   ▬ 95 % interval (learned: certified lower bound)   ◇ true value"
    lines.append(
        f'<text x="{(LEFT + RIGHT) / 2}" y="{bottom + 48}" text-anchor="middle">{key}</text>'
    )
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    place = Path(__file__).resolve().parent.parent / "docs" / "demo-intervals.svg"
    place.write_text(picture(), encoding="utf-8")
