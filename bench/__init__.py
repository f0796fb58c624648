"""Measurements of gputui beside its peers; never part of a test. `make bench`, or `python -m bench --help`."""
