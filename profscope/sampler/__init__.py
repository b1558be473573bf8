"""Where the warps of an unchanged kernel stand, and why they wait: the hardware's samples, through CUPTI."""
