"""Draw the pages of docs/report as PNG: `python scripts/screenshots.py FOLDER`.

Pages of four kinds of log and of a monitor, in Chromium. Open Bandit is read from $PIWO_SHARED (or
../shared), and left out where it is not there; the others are made here. Pictures have few colors,
to stay small.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import piwo
from piwo.decision import Units
from piwo.report import Summary, describe, write, write_looks

SHARED = Path(os.environ.get("PIWO_SHARED", Path(__file__).parents[2] / "shared"))
VIEWS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1000, "height": 1250}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1000, "height": 1250}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 1250}, "color_scheme": "light"},
    "print": {"viewport": {"width": 794, "height": 1123}, "color_scheme": "light"},
}
COLORS = 96
PATIENCE = 300_000.0
"""Milliseconds: a busy machine is no error."""
VISITS = Units("clicks", 100.0, "visits")
"""Of the monitor."""
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


def open_bandit() -> Summary | None:
    """Clicks on clothes: 10,000 rows, 38 clicks, a logger that is uniform over 80 items."""
    path = SHARED / "data" / "obd_random_all.parquet"
    if not path.exists():
        return None
    # by its name alone, as the page shows it
    os.chdir(path.parent)
    log = piwo.read(
        path.name,
        action="item_id",
        reward="click",
        propensity="propensity_score",
        time="timestamp",
        segments="position",
        logger="fixed",
    )
    top = {
        f"only item {x}": piwo.policies.Constant(x, log.actions)
        for x in log.actions.labels[20:60:10]
    }
    top["uniform"] = piwo.policies.Uniform(log.actions)
    return describe(log, top, by="position", units=Units("clicks", 1000.0, "visits"))


def digits() -> Summary:
    """Handwritten digits: the action is a guess, the reward 1 if it is right."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(0)
    x, y = load_digits(return_X_y=True)
    rows = rng.integers(0, len(y), 12_000)
    x, y = x[rows] / 16.0, y[rows]
    # a logger that is right in half of the rows
    chances = np.full((len(y), 10), 0.05)
    chances[np.arange(len(y)), y] = 0.55
    action = (chances.cumsum(axis=1) > rng.random((len(y), 1))).argmax(axis=1)
    columns = {
        "context": x,
        "action": action,
        "reward": (action == y) * 1.0,
        "propensities": chances,
    }
    sides = []
    for half in (slice(0, 6000), slice(6000, None)):
        side = {name: values[half] for name, values in columns.items()}
        sides.append(piwo.Log.from_arrays(**side, actions=range(10), logger="fixed"))
    train, test = sides
    learned = piwo.PIWO(piwo.IX(0.05), piwo.oracles.Ridge()).fit(train)
    policies = {"ridge": learned.policy_, "uniform": piwo.policies.Uniform(test.actions)}
    made = describe(test, policies, units=Units("right guesses", 100.0, "images"))
    return replace(made, source="handwritten digits")


def email() -> Summary:
    """Revenue of three e-mails with refunds: rewards from -40 to 120 euros, four weeks."""
    rng = np.random.default_rng(1)
    n = 24_000
    country = rng.choice(["DE", "FR", "NL", "LU"], n, p=[0.55, 0.32, 0.12, 0.01])
    action = rng.choice(["plain", "discount", "bundle"], n, p=[0.6, 0.25, 0.15])
    buys = {"plain": 0.04, "discount": 0.07, "bundle": 0.055}
    price = {"plain": 30.0, "discount": 22.0, "bundle": 60.0}
    bought = rng.random(n) < np.array([buys[a] for a in action])
    bought &= ~((country == "FR") & (action == "bundle") & (rng.random(n) < 0.5))
    amount = np.array([price[a] for a in action]) * rng.uniform(0.6, 1.4, n)
    refund = bought & (rng.random(n) < np.where(action == "discount", 0.25, 0.08))
    reward = np.where(refund, -rng.uniform(2.0, 12.0, n), amount) * bought
    day = np.datetime64("2026-10-01") + (np.arange(n) * 28 // n)
    share = {"plain": 0.6, "discount": 0.25, "bundle": 0.15}
    log = piwo.Log.from_arrays(
        action=action,
        reward=reward.round(2),
        propensity=np.array([share[a] for a in action]),
        actions=["plain", "discount", "bundle"],
        segments={"country": country},
        time=day,
        reward_range=(-40.0, 120.0),
        logger="fixed",
    )
    policies: dict[str, Any] = {
        f"only {a}": piwo.policies.Constant(a, log.actions) for a in log.actions
    }
    made = describe(log, policies, by="country", units=Units("euros", 1000.0, "mails"))
    return replace(made, source="made-up e-mails")


def items() -> Summary:
    """500 items, each shown rarely: a policy that plays what sold best on other rows."""
    rng = np.random.default_rng(2)
    n, k = 40_000, 500
    rates = rng.beta(2.0, 38.0, k)
    shown = rng.dirichlet(np.full(k, 3.0))
    action = rng.choice(k, n, p=shown)
    log = piwo.Log.from_arrays(
        action=action,
        reward=(rng.random(n) < rates[action]) * 1.0,
        propensity=shown[action],
        actions=range(k),
        logger="fixed",
    )
    before = rng.binomial(400, rates)
    best = np.argsort(-before)
    policies: dict[str, Any] = {}
    for count in (25, 100):
        chances = np.zeros(k)
        chances[best[:count]] = 1.0 / count
        policies[f"best {count}"] = np.tile(chances, (n, 1))
    policies["uniform"] = piwo.policies.Uniform(log.actions)
    made = describe(log, policies, units=Units("sales", 100.0, "visits"))
    return replace(made, source="made-up shop of 500 items")


def monitor() -> piwo.Watch:
    """30 looks, one a day at 400 visits, at two banners instead of one that is shown mostly."""
    rng = np.random.default_rng(3)
    share, rate = np.array([0.6, 0.25, 0.15]), np.array([0.1, 0.15, 0.09])
    names = ["news", "sport", "films"]
    policies = {f"only {x}": piwo.policies.Constant(x, names) for x in names[1:]}
    watch = piwo.Watch.start(policies, deadline="30d")
    for day in range(30):
        action = rng.choice(3, 400, p=share)
        log = piwo.Log.from_arrays(
            action=np.array(names)[action],
            reward=(rng.random(400) < rate[action]) * 1.0,
            propensity=share[action],
            actions=names,
            logger="fixed",
        )
        watch = watch.update(log, date=str(np.datetime64("2026-11-01") + day))
    return watch


SCENARIOS: dict[str, tuple[Callable[[], Summary | piwo.Watch | None], tuple[str, ...]]] = {
    "email": (email, ("light", "dark", "phone", "print")),
    "open-bandit": (open_bandit, ("light",)),
    "digits": (digits, ("light",)),
    "items": (items, ("light",)),
    "monitor": (monitor, ("light", "dark", "phone", "print")),
}


def main(folder: Path) -> None:
    """Write all pictures into a folder."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        sys.exit("screenshots: no chromium here; install it (Debian: apt-get install chromium)")
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as scratch:
        browser = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        for name, (make, views) in SCENARIOS.items():
            summary = make()
            if summary is None:
                print(f"{name}: left out, its data is not here")
                continue
            page = Path(scratch) / f"{name}.html"
            said = written(summary, page)
            print(f"{name}: page of {page.stat().st_size:,} bytes; {said}")
            for view in views:
                picture(browser, page, view, folder / f"{name}-{view}.png")
        browser.close()


def written(made: Summary | piwo.Watch, page: Path) -> str:
    """Write the page of a result, and return what it says first."""
    if isinstance(made, piwo.Watch):
        write_looks(made, page, units=VISITS)
        return made.headline(VISITS)
    write(made, page)
    return made.decision.sentence


def picture(browser: Any, page: Path, view: str, target: Path) -> None:
    """Write one picture of a page."""
    from PIL import Image

    context = browser.new_context(**VIEWS[view])
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    if view == "print":
        tab.emulate_media(media="print")
    tab.goto(page.as_uri())
    shot = tab.screenshot()
    context.close()
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    image.quantize(COLORS, dither=Image.Dither.NONE).save(target, optimize=True)
    print(f"  {target.name}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/report"))
