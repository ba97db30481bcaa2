"""What spark-submit runs: the command line, in the session that spark-submit made."""

from tailbit.cli.main import main

if __name__ == "__main__":
    main()
