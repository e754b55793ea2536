"""The kernel families, one file each; `registry.py` names them."""
