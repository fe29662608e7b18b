"""A rehearsal of the papers' own study: all of its sources made up,
in the formats of their homes.
"""
