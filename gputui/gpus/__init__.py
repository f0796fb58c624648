"""Readings of GPUs and host: NVML, simulated, psutil, history. Knows nothing of jobs."""
