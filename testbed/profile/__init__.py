"""The keys of a profile, and the devices that follow from them."""
