"""Memory for records on a device, its copy to the host, CUDA graphs, and clocks."""
