"""Searches as Optuna studies: the samplers, a family's study, and studies in a store. Nothing else imports Optuna."""
