"""What every run of pytest in this tree shares, whatever it is asked to run."""

pytest_plugins = ("scripts.pytest_examples",)
