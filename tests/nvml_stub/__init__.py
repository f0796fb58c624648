"""A C library with NVML's ABI whose GPUs a test sets while the program runs."""
