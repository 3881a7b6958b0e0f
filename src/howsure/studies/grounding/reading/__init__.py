"""Data from outside in five forms, none of them trusted, into items."""
