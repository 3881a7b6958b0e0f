"""`python -m howsure`."""

from howsure.cli.app import main

if __name__ == "__main__":
    main()
