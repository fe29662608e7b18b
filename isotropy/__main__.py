"""`python -m isotropy` is the console command."""

from isotropy.cli import run

run()
