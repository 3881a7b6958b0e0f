"""Small data that comes with the package, for the demo."""
