"""Searches as Optuna studies: samplers, a family's study, and studies in a store. No other package imports Optuna."""
