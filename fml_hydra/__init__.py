"""Compare automatic ML research agents: which score they reach, and how they research."""

__version__ = "0.1.0"
