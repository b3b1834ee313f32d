"""What stands in a report, a module per section; each has `section(study) -> Section`."""
