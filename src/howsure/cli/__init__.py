"""The command line: one thin file per command, each of which translates its options into one Python call."""
