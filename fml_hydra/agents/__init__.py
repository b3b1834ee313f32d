"""Automatic ML research agents: `base` has the contract and the shared loop, then one file each."""
