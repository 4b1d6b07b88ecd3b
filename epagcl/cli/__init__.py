"""The command line."""

from epagcl.cli.start import main

__all__ = ["main"]
