"""Where things stand and which lines frame them; colours of content are in `theme`."""

CSS = """
MainScreen { layout: vertical; overflow: hidden; background: $background; color: $foreground; }
#host, #banner, #foot { height: 1; width: 1fr; }
#banner { display: none; }
#gpus, #jobs, #detail {
    width: 1fr; border: none; border-top: solid $secondary 60%;
    border-title-color: $foreground; border-title-background: $background; border-title-style: none;
    border-subtitle-color: $foreground; border-subtitle-background: $background; border-subtitle-style: none;
}
#gpus { height: 10; }
#jobs { height: 1fr; min-height: 3; }
#detail { height: 2; }
.boxes #gpus, .boxes #jobs, .boxes #detail { border: round $secondary 60%; }
#gpus:focus, #jobs:focus { border-top: solid $primary; }
.boxes #gpus:focus, .boxes #jobs:focus { border: round $primary; }
.tiny #detail { border: none; }
Confirm { align: center middle; background: $background 50%; }
Confirm:ansi, Page:ansi { background: transparent; }
#dialog {
    width: 72; max-width: 96%; height: auto; max-height: 90%; padding: 1 2;
    border: round $warning; background: $surface;
}
#dialog .name { height: 1; }
#question { margin-bottom: 1; }
#buttons { height: 1; margin-top: 1; align-horizontal: right; }
#buttons Button {
    border: none; height: 1; min-width: 12; margin-left: 2;
    background: $panel; color: $foreground; text-style: none;
}
#buttons Button:focus { background: $primary; color: $background; text-style: bold; }
Prompt { align: left bottom; background: transparent; }
Prompt:ansi { background: transparent; }
#prompt { height: 1; width: 100%; background: $panel; }
#label { width: auto; max-width: 70%; color: $primary; text-wrap: nowrap; text-overflow: ellipsis; }
#answer { width: 1fr; border: none; height: 1; padding: 0; background: $panel; }
Page { align: center middle; background: $background 50%; }
#page {
    width: 100; max-width: 96%; height: auto; max-height: 92%; padding: 0 2;
    border: round $primary; background: $surface;
    scrollbar-size-vertical: 1;
}
#page Static { height: auto; }
LogView { align: center middle; }
#log { width: 100%; height: 100%; border: round $primary; background: $background;
    border-title-color: $foreground; border-subtitle-color: $foreground;
    border-title-background: $background; border-subtitle-background: $background; }
"""
