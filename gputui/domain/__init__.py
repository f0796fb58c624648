"""Decisions: pure functions and value types. No I/O, no clock, no randomness; `now` is an argument."""
