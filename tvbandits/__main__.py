"""`python -m tvbandits` is the command `tvbandits`."""

from tvbandits.cli.stopping import exit_on_interrupt


def main() -> None:
    """Run the command line; Ctrl-C while it is being imported leaves without a traceback."""
    with exit_on_interrupt():
        from tvbandits.cli.main import main as run
    run()


if __name__ == "__main__":
    main()
