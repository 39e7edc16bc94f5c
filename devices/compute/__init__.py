"""Local training: the SGD loop, its pace, and the processes and quotas that slow it down."""
