"""The notebooks run from the first cell to the last, each in a kernel of its own."""

import gc
import json
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.notebooks
jupytext = pytest.importorskip("jupytext", reason="notebooks are run with jupytext")
nbclient = pytest.importorskip("nbclient", reason="notebooks are run with nbclient")
pytest.importorskip("ipykernel", reason="notebooks are run by ipykernel")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.py"))


def test_there_are_five():
    assert len(NOTEBOOKS) == 5


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """The name of a kernel that is the Python of these tests, whichever others are installed."""
    folder = tmp_path / "jupyter" / "kernels" / "of-these-tests"
    folder.mkdir(parents=True)
    words = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": words, "display_name": "piwo", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    return folder.name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default", "ignore::ResourceWarning")
def test_a_notebook_runs_and_shows_its_results(path, tmp_path, kernel):
    from jupyter_client.manager import AsyncKernelManager

    notebook = jupytext.read(path)
    folder = tmp_path / "here"
    folder.mkdir()
    # Sockets in a folder, which no other user and no network can reach; their paths must be short.
    with tempfile.TemporaryDirectory() as sockets:
        client = nbclient.NotebookClient(
            notebook,
            km=AsyncKernelManager(kernel_name=kernel, transport="ipc", ip=f"{sockets}/k"),
            resources={"metadata": {"path": str(folder)}},
            # no test depends on how fast a machine is
            startup_timeout=600,
            timeout=600,
        )
        client.execute()
        # The client leaves sockets to the garbage collector, which says so; here it is expected.
        client.km = client.kc = None
        del client
        gc.collect()
    kinds, printed = set(), ""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            kinds.update(output.get("data", ()))
            printed += output.get("text", "")
    # Results show themselves as tables, figures as charts.
    assert "text/html" in kinds
    assert "image/svg+xml" in kinds
    assert "Traceback" not in printed
    assert not list(folder.iterdir())
