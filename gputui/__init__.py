"""gputui: every GPU and every waiting job of a shared server side by side, in one terminal."""

__version__ = "0.1.0"
