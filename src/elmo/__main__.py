"""`python -m elmo`: the same as the command `elmo`."""

from elmo.cli.main import main

main()
