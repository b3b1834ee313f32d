"""`python -m fml_hydra`."""

from fml_hydra.cli import main

if __name__ == "__main__":
    main()
