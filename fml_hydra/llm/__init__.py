"""Language models behind one protocol: `base` has the contract, the others implement it."""
