"""A bank as the posterior of a recipe, and the recent past that late observations go back to."""

from tvbandits.gp.bank.posterior.rule import BankPosterior, ModelBank

__all__ = ["BankPosterior", "ModelBank"]
