"""``report.html``: a run on one page that needs nothing else, made of its trace and of what lies beside it."""
