// What op_spans.mlir leaves out of the classes: one prefix for each, every run records that class and nothing else.
// RUN: profscope opt %S/inputs/classes_sm90.ttgir -p 'op-spans{classes=reduce}' | FileCheck %s --check-prefix=REDUCE
// RUN: profscope opt %S/inputs/classes_sm90.ttgir -p 'op-spans{classes=math}' | FileCheck %s --check-prefix=MATH
// RUN: profscope opt %S/inputs/classes_sm90.ttgir -p 'op-spans{classes=convert}' | FileCheck %s --check-prefix=CONVERT
// RUN: profscope opt %S/inputs/classes_sm90.ttgir -p 'op-spans{classes=elementwise}' | FileCheck %s --check-prefix=ELEMENTWISE
// RUN: profscope opt %S/inputs/classes_sm90.ttgir -p 'op-spans{classes=debug}' | FileCheck %s --check-prefix=DEBUG
// RUN: profscope opt %S/inputs/classes_sm90.ttgir -p 'op-spans{classes=wait;barrier}' | FileCheck %s --check-prefix=DEPENDENT
// RUN: profscope opt %S/inputs/rows_sm100.ttgir -p 'op-spans{classes=descriptor}' | FileCheck %s --check-prefix=DESCRIPTOR
// RUN: profscope opt %S/inputs/rows_sm100.ttgir -p 'op-spans{classes=async_copy}' | FileCheck %s --check-prefix=ROWS
// RUN: profscope opt %S/inputs/cluster_sm90.ttgir -p 'op-spans{classes=wait;barrier}' | FileCheck %s --check-prefix=CLUSTER
// RUN: profscope opt %S/inputs/matmul_sm80.ttgir -p 'op-spans{classes=mma;local}' | FileCheck %s --check-prefix=DOT
// RUN: profscope opt %S/inputs/matmul_gfx942.ttgir -p 'op-spans{classes=mma;local}' | FileCheck %s --check-prefix=AMD
// RUN: profscope opt %S/inputs/matmul_gfx942.ttgir -p 'op-spans{classes=store},lower-records' | FileCheck %s --check-prefix=LOWERED

// REDUCE: name = "scan total", op = "tt.scan"
// REDUCE-NEXT: "tt.scan"
// REDUCE-NOT: profscope
// REDUCE: tt.scan.return
// REDUCE-NEXT: }) : (tensor<128xf32, #blocked>) -> tensor<128xf32, #blocked>
// REDUCE-NEXT: "profscope.end"() {id = 0 : i32}
// REDUCE: name = "histogram counts", op = "tt.histogram"
// REDUCE-NEXT: tt.histogram
// REDUCE-NEXT: profscope.end
// REDUCE: name = "gather picked", op = "tt.gather"
// REDUCE-NEXT: tt.gather
// REDUCE-NEXT: profscope.end
// REDUCE-NOT: profscope

// MATH: name = "exp y", op = "math.exp"
// MATH-NEXT: math.exp
// MATH-NEXT: profscope.end
// MATH-NOT: profscope

// CONVERT: name = "truncf{{.*}}", op = "arith.truncf"
// CONVERT-NEXT: arith.truncf
// CONVERT-NEXT: profscope.end
// CONVERT-NOT: profscope

// The assembly of a dependent launch is no arithmetic.
// ELEMENTWISE: name = "cmpi{{.*}}", op = "arith.cmpi"
// ELEMENTWISE: name = "mulf{{.*}}", op = "arith.mulf"
// ELEMENTWISE-NEXT: arith.mulf
// ELEMENTWISE-NEXT: profscope.end
// ELEMENTWISE-NOT: profscope

// DEBUG: name = "assert", op = "tt.assert"
// DEBUG-NEXT: tt.assert
// DEBUG-NEXT: profscope.end
// DEBUG: name = "print", op = "tt.print"
// DEBUG-NEXT: tt.print
// DEBUG-NEXT: profscope.end
// DEBUG-NOT: profscope

// DEPENDENT: name = "grid dependency wait", op = "tt.elementwise_inline_asm"
// DEPENDENT-NEXT: griddepcontrol.wait
// DEPENDENT-NEXT: profscope.end
// DEPENDENT: name = "launch dependents", op = "tt.elementwise_inline_asm"
// DEPENDENT-NEXT: griddepcontrol.launch_dependents
// DEPENDENT-NEXT: profscope.end
// DEPENDENT-NOT: profscope

// DESCRIPTOR: name = "tensormap create x_desc", op = "ttng.tensormap_create"
// DESCRIPTOR-NEXT: ttng.tensormap_create
// DESCRIPTOR-NEXT: profscope.end
// DESCRIPTOR: name = "tensormap acquire x_desc", op = "ttng.tensormap_fenceproxy_acquire"
// DESCRIPTOR-NEXT: ttng.tensormap_fenceproxy_acquire
// DESCRIPTOR-NEXT: profscope.end

// ROWS: name = "tma gather x", op = "ttng.async_tma_gather", bytes = 4096 : i64
// ROWS-NEXT: ttng.async_tma_gather
// ROWS-NEXT: profscope.end
// ROWS: name = "tma scatter", op = "ttng.async_tma_scatter", bytes = 4096 : i64
// ROWS-NEXT: ttng.async_tma_scatter
// ROWS-NEXT: profscope.end
// ROWS: name = "tma reduce", op = "ttng.async_tma_reduce", bytes = 4096 : i64
// ROWS-NEXT: ttng.async_tma_reduce
// ROWS-NEXT: profscope.end
// ROWS-NOT: profscope

// CLUSTER: name = "{{.*}}", op = "ttng.fence_mbarrier_init_release_cluster"
// CLUSTER: name = "cluster arrive", op = "ttng.cluster_arrive"
// CLUSTER-NEXT: ttng.cluster_arrive
// CLUSTER-NEXT: profscope.end
// CLUSTER: name = "cluster wait", op = "ttng.cluster_wait"
// CLUSTER-NEXT: ttng.cluster_wait
// CLUSTER-NEXT: profscope.end
// CLUSTER-NOT: profscope

// DOT: name = "local load a", op = "ttg.local_load", bytes = 4096 : i64
// DOT-NEXT: ttg.local_load
// DOT-NEXT: profscope.end
// DOT: name = "dot acc", op = "tt.dot", flops = 262144 : i64
// DOT-NEXT: tt.dot
// DOT-NEXT: profscope.end

// AMD: name = "local store a", op = "ttg.local_store", bytes = 4096 : i64
// AMD: scf.for
// AMD: name = "local load a", op = "ttg.local_load", bytes = 4096 : i64
// AMD: name = "dot{{.*}}", op = "tt.dot", flops = 262144 : i64
// AMD-NEXT: tt.dot
// AMD-NEXT: profscope.end

// A clock read stands between two fences of the scheduler, and the store between two clocks.
// LOWERED: tt.func
// LOWERED: llvm.call_intrinsic "llvm.amdgcn.s.memrealtime"() : () -> i64
// LOWERED: llvm.call_intrinsic "llvm.amdgcn.raw.buffer.store.v4i32"
// LOWERED: scf.for
// LOWERED-NOT: s.memtime
// LOWERED: scf.yield
// LOWERED: "llvm.amdgcn.sched.barrier"
// LOWERED-NEXT: %[[BEGIN:.*]] = llvm.call_intrinsic "llvm.amdgcn.s.memtime"() : () -> i64
// LOWERED-NEXT: arith.constant
// LOWERED-NEXT: "llvm.amdgcn.sched.barrier"
// LOWERED-NEXT: arith.trunci %[[BEGIN]] : i64 to i32
// LOWERED-NEXT: tt.store
// LOWERED: llvm.call_intrinsic "llvm.amdgcn.s.memtime"() : () -> i64
// LOWERED: llvm.call_intrinsic "llvm.amdgcn.raw.buffer.store.v4i32"
// LOWERED: tt.return
