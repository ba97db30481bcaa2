"""`python -m tailbit` is the command `tailbit`."""

from tailbit.cli.entry import main

if __name__ == "__main__":
    main()
