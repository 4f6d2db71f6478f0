"""`python -m tvbandits` is the command `tvbandits`."""

from tvbandits.cli.main import main

if __name__ == "__main__":
    main()
