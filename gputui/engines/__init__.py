"""Running: what starts, follows and ends a run."""
