"""As little as a Typer command can be that takes what a submit takes: a name and a command line."""

from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


@app.command()
def submit(argv: list[str], name: Annotated[str, typer.Option()] = "") -> None:
    """Say what would be submitted."""
    typer.echo(f"{name} {argv}")


if __name__ == "__main__":
    app()
