"""A recorded run met again: job by job, in the recorded order, with a certificate."""
