"""`python -m piwo`: the command line."""

import sys

from piwo.cli.main import main

sys.exit(main())
