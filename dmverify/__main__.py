"""``python -m dmverify``: the command line without an installed script."""

from dmverify.cli import main

if __name__ == "__main__":
    main()
