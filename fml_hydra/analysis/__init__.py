"""Post-hoc analysis: tables of runs and steps, and metrics as functions from tables to tables."""
