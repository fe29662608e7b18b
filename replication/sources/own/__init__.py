"""A user's own sources: entries of the registry written from a model's folder, a file of texts, or
a repository of a hub (`isotropy sources add`), and their state on this machine.
"""
