"""Tables and pictures that the documentation publishes, each a function of stored rows."""
