"""Typer commands, one file per noun."""
