"""Many runs one after another: rules, seeds and settings, all combinations, going on where it stopped."""
