"""The views of the console: a module for each place, named in `places`."""
