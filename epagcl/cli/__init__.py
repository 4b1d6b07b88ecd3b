"""The command line."""

from epagcl.cli.app import main

__all__ = ["main"]
