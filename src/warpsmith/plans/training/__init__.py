"""Training steps: the three passes of a layer, ready to be called one after the other."""
