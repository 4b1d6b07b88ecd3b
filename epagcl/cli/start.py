"""The start of the program: signals are handled before anything large is imported."""

from epagcl.core.termination import handle_sigterm, quiet_ctrl_c


def main() -> None:
    """Run the command line. Signals end it in one line, also while its modules are imported."""
    handle_sigterm()
    with quiet_ctrl_c():
        from epagcl.cli import app
    app.main()
