"""Templates, and what the processes that are forked from them do first."""
