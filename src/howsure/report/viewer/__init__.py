"""`howsure view`: run folders in the browser, on this machine, read and never written.

The way of a request: `guard` (who may ask, and the rules of every answer), `app` (which page), `places` (which folder,
and none outside), `library` (the run, read once and kept), `query` (which rows), then the pages themselves.
"""
