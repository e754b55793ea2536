"""`python -m warpsmith` is the command line."""

from warpsmith.cli import main

if __name__ == "__main__":
    main()
