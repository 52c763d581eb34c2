"""The figures show the right means, say what they show, and can be read in print."""

import re
import struct
import xml.etree.ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("altair", reason="figures need the extra plots")
pytest.importorskip("vl_convert", reason="figures need the extra plots")

from experiments import figures as drawn
from experiments.figures import figures, write_figures

STAR = np.sqrt(16 / 810_000)
PANELS = ["PIWO-IX (h = γ)", "PIWO-Clip (h = γ)", "PIWO-PL (h = β)", "PIWO-LS (h = γ = λ/2)"]
POINTS_OF_18_CM = 18 / 2.54 * 72
SMALL = {"etas": np.logspace(-1, 3, 5), "hs": np.logspace(-10, 0, 5), "folds": 3}


@pytest.fixture(scope="module")
def run(fabricate):
    return fabricate()


@pytest.fixture(scope="module")
def specs(run):
    return figures(*run, "BNG(letter)", synthetic=False, gamma_star=STAR)


@pytest.fixture(scope="module")
def small(fabricate):
    return fabricate(**SMALL)


@pytest.fixture(scope="module")
def written(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures") / "new"
    return write_figures(*small, "made-up letters", synthetic=True, gamma_star=STAR, folder=folder)


def lines(points, field):
    """Panel to the values that tell its lines apart."""
    return {
        panel: {point[field] for point in points if point["panel"] == panel and "low" in point}
        for panel in PANELS
    }


def test_the_rows_of_each_figure(specs):
    assert {name: list(spec["datasets"]) for name, spec in specs.items()} == {
        "figure-1": ["rewards"],
        "figure-2": ["rewards", "regrets"],
        "figure-3": ["rewards", "regrets"],
    }
    for name, spec in specs.items():
        assert len(spec["vconcat"]) == len(spec["datasets"])
        assert [row["facet"]["column"]["sort"] for row in spec["vconcat"]] == [PANELS] * len(
            spec["vconcat"]
        )
        assert ("bad" if name == "figure-3" else "good") in spec["title"]["text"]
        assert (
            spec["title"]["subtitle"] == "BNG(letter); mean ± one standard deviation over 10 folds"
        )
    assert specs["figure-1"]["vconcat"][0]["spec"] == specs["figure-2"]["vconcat"][0]["spec"]
    assert specs["figure-1"]["datasets"]["rewards"] == specs["figure-2"]["datasets"]["rewards"]


def test_one_line_a_hyper_parameter_and_one_a_logger(specs):
    rewards, regrets = specs["figure-3"]["datasets"].values()
    assert {panel: len(found) for panel, found in lines(rewards, "h").items()} == dict.fromkeys(
        PANELS, 20
    )
    assert {panel: len(found) for panel, found in lines(regrets, "eta").items()} == dict.fromkeys(
        PANELS, 20
    )
    assert len([point for point in rewards if point["kind"] == drawn.NEAREST]) == 4 * 20
    assert {point["h"] for point in rewards if point["kind"] == drawn.NEAREST} == {0.0078476}
    below = {point["h"] for point in rewards if point["kind"] == drawn.BELOW}
    assert len(below) == 9
    assert max(below) == pytest.approx(1.6238e-6)
    assert max(below) <= STAR / 1000 < 5.4556e-6
    for kind in (drawn.BEHAVIOR, drawn.BEST_FIXED):
        assert len([point for point in rewards if point["kind"] == kind]) == 4 * 20


def test_points_are_means_and_deviations_over_folds(run, specs):
    rewards, regrets = specs["figure-2"]["datasets"].values()
    eta, h = np.logspace(-1, 3, 20)[12], np.logspace(-10, 0, 20)[5]
    where = (pc.field("set") == "good") & (pc.field("eta") == eta) & (pc.field("h") == h)
    cell = run[0].filter(where & (pc.field("algorithm") == "PIWO-PL"))["reward"].to_numpy()
    assert len(cell) == 10
    here = {"panel": PANELS[2], "eta": float(f"{eta:.5g}"), "h": float(f"{h:.5g}")}
    (reward,), (regret,) = (
        [p for p in points if here.items() <= p.items()] for points in (rewards, regrets)
    )
    mean, sd = cell.mean(), cell.std(ddof=1)
    assert (reward["mean"], reward["low"], reward["high"]) == pytest.approx(
        (mean, mean - sd, mean + sd), abs=1e-5
    )
    assert (regret["mean"], regret["low"], regret["high"]) == pytest.approx(
        (1 - mean, 1 - mean - sd, 1 - mean + sd), abs=1e-5
    )
    assert all(
        value == float(f"{value:.5g}")
        for p in rewards
        for value in p.values()
        if isinstance(value, float)
    )


def test_panels_share_logarithmic_x_and_one_y(specs):
    for spec in specs.values():
        for row, points in zip(spec["vconcat"], spec["datasets"].values(), strict=True):
            encodings = [layer["encoding"] for layer in row["spec"]["layer"]]
            assert {encoding["x"]["scale"]["type"] for encoding in encodings} == {"log"}
            ((low, high),) = {tuple(encoding["y"]["scale"]["domain"]) for encoding in encodings}
            values = [
                point[name] for point in points for name in ("mean", "low", "high") if name in point
            ]
            assert low <= min(values) < max(values) <= high
            shades = [encoding["color"]["scale"] for encoding in encodings if "color" in encoding]
            assert shades
            assert all(shade["type"] == "log" for shade in shades)


def test_only_what_the_run_allows(fabricate):
    def names(**kwargs):
        return list(figures(*fabricate(**SMALL, **kwargs), "x", synthetic=False, gamma_star=STAR))

    assert names(sets=["good"]) == ["figure-1", "figure-2"]
    assert names(sets=["bad"]) == ["figure-3"]


def test_a_run_of_two_algorithms_has_two_panels(fabricate):
    tables = fabricate(**SMALL, sets=["bad"], algorithms=["PIWO-IX", "PIWO-PL"])
    spec = figures(*tables, "x", synthetic=False, gamma_star=STAR)["figure-3"]
    assert spec["vconcat"][1]["facet"]["column"]["sort"] == [PANELS[0], PANELS[2]]


def test_no_dash_in_the_legend_where_no_line_is_dashed(fabricate):
    tables = fabricate(sets=["good"], etas=[1.0, 10.0], hs=[1e-3, 1e-2], folds=2)
    spec = figures(*tables, "x", synthetic=False, gamma_star=STAR)["figure-1"]
    named = [
        layer["encoding"]["stroke"]["scale"]["domain"]
        for layer in spec["vconcat"][0]["spec"]["layer"]
        if "stroke" in layer["encoding"]
    ]
    assert named
    assert all(names == [drawn.NEAREST, drawn.BEHAVIOR, drawn.BEST_FIXED] for names in named)


def test_no_mark_at_sqrt_d_n_where_it_is_outside_the_grid(fabricate):
    for hs, marks in (([1e-3, 1e-2], 4 * 2), ([1e-10, 1e-5], 0)):
        tables = fabricate(sets=["bad"], etas=[1.0, 10.0], hs=hs, folds=2)
        spec = figures(*tables, "x", synthetic=False, gamma_star=STAR)["figure-3"]
        assert (
            len([point for point in spec["datasets"]["regrets"] if point["kind"] == drawn.STAR])
            == marks
        )
        assert len(
            [1 for layer in spec["vconcat"][1]["spec"]["layer"] if "stroke" in layer["encoding"]]
        ) == (marks > 0)


def test_a_single_logger_fold_and_hyper_parameter_can_be_drawn(fabricate, tmp_path):
    tables = fabricate(sets=["good"], algorithms=["PIWO-IX"], etas=[10.0], hs=[1e-3], folds=1)
    paths = write_figures(*tables, "x", synthetic=False, gamma_star=STAR, folder=tmp_path)
    assert "x; one fold" in paths[0].read_text(encoding="utf-8")


def test_files_are_pictures_that_name_synthetic_data(written):
    assert [path.name for path in written] == [
        f"figure-{number}.{kind}" for number in (1, 2, 3) for kind in ("svg", "png")
    ]
    for svg, png in zip(written[::2], written[1::2], strict=True):
        text = svg.read_text(encoding="utf-8")
        root = ET.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "made-up letters: synthetic data, not BNG(letter)" in text
        size = [int(root.get(side)) for side in ("width", "height")]
        head = png.read_bytes()[:24]
        assert head[:8] == b"\x89PNG\r\n\x1a\n"
        assert list(struct.unpack(">II", head[16:24])) == [2 * side for side in size]


def test_real_data_are_not_called_synthetic(small):
    specs = figures(*small, "BNG(letter)", synthetic=False, gamma_star=STAR)
    assert not any("synthetic" in spec["title"]["subtitle"] for spec in specs.values())
    specs = figures(*small, "synthetic data", synthetic=True, gamma_star=STAR)
    assert all(
        s["title"]["subtitle"].startswith("synthetic data, not BNG(letter); ")
        for s in specs.values()
    )


def test_drawn_lines_and_words(written):
    """What came out at the end of the drawing: lines, bands, panels, and words for orange and
    dashes."""
    for svg in written[::2]:
        text = svg.read_text(encoding="utf-8")
        words = {
            "".join(node.itertext())
            for node in ET.fromstring(text).iter()
            if node.tag.endswith("text")
        }
        assert {
            *PANELS,
            "expected reward",
            drawn.NEAREST,
            drawn.BELOW,
            drawn.BEHAVIOR,
            drawn.BEST_FIXED,
        } <= words
        assert ("expected regret" in words) == ("figure-1" not in svg.name)
        # Per panel: 5 hyper-parameters and 2 references; below, 5 loggers and the line at
        # sqrt(d/n).
        rows = 1 if "figure-1" in svg.name else 2
        paths = re.findall(r'<path [^>]*d="M[^"]*"[^>]*>', text)
        long_lines = [path for path in paths if 'fill="none"' in path or "fill=" not in path]
        assert len([p for p in long_lines if p.count("L") == 4]) >= 4 * 7 + (rows - 1) * 4 * 5
        bands = [sum(f'opacity="{opacity}"' in path for path in paths) for opacity in (0.06, 0.15)]
        assert bands == [4 * 4, 4 * 1 + (rows - 1) * 4 * 5]


def test_letters_are_large_enough_in_print(written):
    for svg in written[::2]:
        text = svg.read_text(encoding="utf-8")
        width = int(ET.fromstring(text).get("width"))
        sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)px"', text)]
        assert sizes
        assert min(sizes) * POINTS_OF_18_CM / width >= 9.0


def test_a_figure_of_a_full_run_is_small_enough(specs):
    assert len(drawn.svg(specs["figure-3"])) < 600_000


def test_same_input_same_bytes(small, written, tmp_path):
    rng = np.random.default_rng(1)
    results, loggers = (table.take(pa.array(rng.permutation(table.num_rows))) for table in small)
    again = write_figures(
        results, loggers, "made-up letters", synthetic=True, gamma_star=STAR, folder=tmp_path
    )
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]
