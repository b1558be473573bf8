"""Compile a kernel ahead of time with its records: build/softmax.cubin, .json and .h."""

import profscope
from profscope.demo.kernels import softmax_kernel

SIGNATURE = {"out_ptr": "*fp32:16", "in_ptr": "*fp32:16", "rows": "i32", "cols": "i32:16", "BLOCK": 1024}

if __name__ == "__main__":
    profscope.export(softmax_kernel, SIGNATURE, "build/softmax", target="cuda:90")
