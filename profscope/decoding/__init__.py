"""Decoding of record buffers to spans"""
