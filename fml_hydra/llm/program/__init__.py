"""The parts of the offline search program; `llm.offline` puts them together. All of it is pure."""
