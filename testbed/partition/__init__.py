"""Who was dealt what: ``run_testbed.py data``, as a table, as JSON and as a picture."""
