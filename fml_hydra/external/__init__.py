"""What an agent that is a program of its own is given, and how it is followed.

The endpoint it asks for evaluations, the client that speaks to it, its working copy, and what is
known of each program. Not here: the loop that drives one (`agents.external`), evaluation itself.
"""
