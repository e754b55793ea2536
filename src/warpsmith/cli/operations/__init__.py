"""The operations as the command line names them, each in a room of its own; `registry.py` names them."""
