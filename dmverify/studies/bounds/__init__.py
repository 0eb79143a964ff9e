"""Experiments on the bounds: are they sound, can they be broken, how sharp are they."""
