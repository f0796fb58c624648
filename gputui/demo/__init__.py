"""A queue to look at: simulated GPUs, growing datasets, and real jobs that really run."""
