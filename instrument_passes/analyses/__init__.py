"""Analyses of a module that passes use before they change it."""
