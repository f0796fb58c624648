"""What the demo's jobs run: small programs of the standard library, each started by its path."""
