"""Small tools without any knowledge of federated learning: errors, parameters, clock, files, text output."""
