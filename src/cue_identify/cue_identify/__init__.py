"""Identification: from recorded shots to the twin's parameters, with error bars and a held-out gate."""
