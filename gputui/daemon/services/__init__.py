"""What the daemon does, one module per noun. Every act takes who asks first, and runs to its end once begun."""
