"""Servers of others, set up as their documentation says, for comparison. `bench/README.md` tells what was chosen and why."""
