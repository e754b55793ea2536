"""Cross-check of a ranking of families that is learned from stored times, for `learned_ranking.py`."""
