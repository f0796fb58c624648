"""The composition root: the loop, the services, the routes, access control."""
