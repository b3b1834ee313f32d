"""The report: what the analysis found as one HTML page, with tables and figures as files."""
