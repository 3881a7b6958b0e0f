"""`howsure`, which is `python -m howsure` too."""

from howsure.isolated import isolate


def main() -> None:
    isolate()  # before anything else is imported
    from howsure.cli.app import main as command

    command()


if __name__ == "__main__":
    main()
