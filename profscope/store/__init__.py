"""Spools: a session in a growing file, written and read"""
