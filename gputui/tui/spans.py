"""Textual's partial updates, cropped on both sides.

Its own repaint a changed cell together with all that stands left of it in the line; on the right end of a long line
that is most of what a monitor would write.
"""

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate, Compositor


class NarrowUpdate(ChopsUpdate):
    """Writes the changed spans and nothing beside them."""

    def render_segments(self, console: Console) -> str:
        """Bytes for the terminal."""
        written: list[str] = []
        for y, left, right in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= right or end <= left:
                    continue
                start = max(x, left)
                written.append(Control.move_to(start, y).segment.text)
                written.append(strip.crop(start - x, min(end, right) - x).render(console))
        return "".join(written)


class NarrowCompositor(Compositor):
    """A compositor whose partial updates are narrow."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """The dirty spans, if any."""
        update = super().render_partial_update()
        return NarrowUpdate(update.chops, update.spans, update.chop_ends) if update else None
