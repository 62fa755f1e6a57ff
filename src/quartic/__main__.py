"""``python -m quartic`` is the command ``quartic``."""

from quartic.cli import main

main()
