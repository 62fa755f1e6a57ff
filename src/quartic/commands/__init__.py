"""What stands behind the commands of ``quartic``; `quartic.cli` declares them."""
