"""What supervisors load: standard library only, quick to import, and nothing of the rest of gputui."""
