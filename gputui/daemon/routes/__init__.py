"""The HTTP routes, one file per noun: access check, then the service. They decide nothing."""
