"""``python -m epagcl``."""

from epagcl.cli.app import main

main()
