"""``report.html``: one page about a run, made from its trace and the files beside it."""
