"""``python -m epagcl``."""

from epagcl.cli import main

main()
