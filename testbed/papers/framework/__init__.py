"""The types that every paper's package uses: runs, searches, results, verdicts, chapters."""
