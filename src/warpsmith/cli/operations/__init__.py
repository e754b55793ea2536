"""The operations of the command line, one package each. `registry.py` lists them."""
