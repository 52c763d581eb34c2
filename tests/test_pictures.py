"""The picture of docs/certificates.md is what its script draws, and names what there is."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import piwo

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "which-certificate.svg"


@cache
def drawn() -> str:
    code = (
        "import draw_certificates as d, sys; sys.stdout.reconfigure(encoding='utf-8'); "
        "print(d.picture(), end='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "scripts",
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


def test_it_is_what_the_script_draws() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn()


def test_its_names_exist_and_its_words_fit_their_boxes() -> None:
    words = [one.text or "" for one in ET.fromstring(drawn()).iter() if one.tag.endswith("}text")]
    assert max(map(len, words)) <= 60
    names = {
        name
        for line in words
        for name in re.findall(r"\b[A-Z][A-Za-z]*[A-Z][A-Za-z]*\b(?!-)", line)
    }
    assert {"PIWO", "PIWOGrid", "PACBayes", "PACBayesLinear", "GibbsLinear"} <= names
    assert all(hasattr(piwo, name) for name in names)
