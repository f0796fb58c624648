"""As little as a Textual app can be, on our terms: no mouse, one line."""

from textual.app import App, ComposeResult
from textual.widgets import Static


class Bare(App[None]):
    """One line."""

    def compose(self) -> ComposeResult:
        yield Static("READY")


if __name__ == "__main__":
    Bare().run(mouse=False)
