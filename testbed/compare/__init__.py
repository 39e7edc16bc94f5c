"""Several runs side by side: rules over seeds, with intervals and paired tests, as tables, figures and a page."""
