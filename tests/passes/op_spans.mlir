// One prefix a class; every run records that class and nothing else.
// RUN: profscope opt %S/inputs/add.ttgir -p 'op-spans{classes=load}' | FileCheck %s --check-prefix=LOAD
// RUN: profscope opt %S/inputs/early_return.ttgir -p 'op-spans{classes=store}' | FileCheck %s --check-prefix=STORE
// RUN: profscope opt %S/inputs/atomics_sm90.ttgir -p 'op-spans{classes=atomic}' | FileCheck %s --check-prefix=ATOMIC
// RUN: profscope opt %S/inputs/softmax.ttgir -p 'op-spans{classes=async_copy}' | FileCheck %s --check-prefix=COPY
// RUN: profscope opt %S/inputs/matmul_tma_sm90.ttgir -p 'op-spans{classes=async_copy}' | FileCheck %s --check-prefix=TMA
// RUN: profscope opt %S/inputs/softmax.ttgir -p 'op-spans{classes=wait}' | FileCheck %s --check-prefix=WAIT
// RUN: profscope opt %S/inputs/matmul_tma_sm90.ttgir -p 'op-spans{classes=mma;wait}' | FileCheck %s --check-prefix=HOPPER
// RUN: profscope opt %S/inputs/matmul_tma_sm100.ttgir -p 'op-spans{classes=mma}' | FileCheck %s --check-prefix=BLACKWELL
// RUN: profscope opt %S/inputs/matmul_tma_sm100.ttgir -p 'op-spans{classes=barrier}' | FileCheck %s --check-prefix=MBARRIER
// RUN: profscope opt %S/inputs/lock_sm90.ttgir -p 'op-spans{classes=barrier;atomic}' | FileCheck %s --check-prefix=BARRIER
// RUN: profscope opt %S/inputs/softmax.ttgir -p 'op-spans{classes=reduce}' | FileCheck %s --check-prefix=REDUCE
// RUN: profscope opt %S/inputs/matmul_tma_sm100.ttgir -p 'op-spans{classes=local}' | FileCheck %s --check-prefix=LOCAL
// RUN: profscope opt %S/inputs/matmul_sm80.ttgir -p 'op-spans{classes=layout}' | FileCheck %s --check-prefix=LAYOUT
// RUN: profscope opt %S/inputs/noinline_sm90.ttgir -p 'op-spans{classes=call}' | FileCheck %s --check-prefix=CALL
// RUN: profscope opt %S/inputs/nested_loops.ttgir -p 'op-spans{classes=load;store measure=latency}' | FileCheck %s --check-prefix=LATENCY

// The name has the variable that the value is bound to in the source.
// LOAD: "profscope.begin"() {id = 0 : i32, kind = "op", name = "load x", op = "tt.load", bytes = 4096 : i64} : () -> () loc([[X:#loc[0-9]+]])
// LOAD-NEXT: %x_5 = tt.load {{.*}} loc([[X]])
// LOAD-NEXT: "profscope.end"() {id = 0 : i32} : () -> () loc([[X]])
// LOAD: name = "load y"
// LOAD-NEXT: %y_7 = tt.load
// LOAD-NEXT: "profscope.end"() {id = 1 : i32}
// LOAD-NOT: profscope

// STORE: ^bb3:
// STORE: "profscope.begin"() {id = 0 : i32, kind = "op", name = "store", op = "tt.store", bytes = 512 : i64}
// STORE-NEXT: tt.store
// STORE-NEXT: "profscope.end"() {id = 0 : i32}
// STORE: ^bb4:
// STORE: "profscope.begin"() {id = 1 : i32, kind = "op", name = "store", op = "tt.store", bytes = 512 : i64}

// ATOMIC: name = "atomic", op = "tt.atomic_rmw"
// ATOMIC-NEXT: tt.atomic_rmw
// ATOMIC-NEXT: profscope.end

// COPY: name = "async copy x", op = "ttg.async_copy_global_to_local"{{.*}} stage = "prologue", loop = 0 : i32}
// COPY-NEXT: ttg.async_copy_global_to_local
// COPY-NEXT: "profscope.end"() {id = 0 : i32}
// COPY-NEXT: name = "commit group x", op = "ttg.async_commit_group"
// COPY: scf.for
// COPY: name = "async copy x", op = "ttg.async_copy_global_to_local"{{.*}} stage = "steady", loop = 0 : i32, ahead = 1 : i32

// TMA: "profscope.begin"([[ON:%[a-z0-9_]+]]) {{.*}}name = "tma load a", op = "ttng.async_tma_copy_global_to_local", bytes = 8192 : i64
// TMA-NEXT: ttng.async_tma_copy_global_to_local {{.*}}, [[ON]] :
// TMA: name = "tma load b", op = "ttng.async_tma_copy_global_to_local", bytes = 8192 : i64
// TMA: name = "tma store", op = "ttng.async_tma_copy_local_to_global"

// WAIT: scf.for
// WAIT: name = "async wait x", op = "ttg.async_wait"
// WAIT-NEXT: ttg.async_wait
// WAIT-NEXT: profscope.end
// WAIT-NOT: name = "async copy
// What the pipeliner puts behind a loop waits for what is under way, not for what the loop computes.
// WAIT: name = "async wait (drain)", op = "ttg.async_wait"
// WAIT-NEXT: ttg.async_wait

// HOPPER: name = "barrier wait a, b", op = "ttng.wait_barrier"
// HOPPER: name = "dot issue acc", op = "ttng.warp_group_dot", flops = 524288 : i64
// HOPPER-NEXT: ttng.warp_group_dot
// HOPPER: name = "dot wait acc", op = "ttng.warp_group_dot_wait"
// HOPPER: name = "dot wait (drain)", op = "ttng.warp_group_dot_wait"
// HOPPER: name = "tma store wait", op = "ttng.async_tma_store_wait"
// HOPPER: name = "tma store wait (drain)", op = "ttng.async_tma_store_wait"

// BLACKWELL: name = "mma issue acc", op = "ttng.tc_gen5_mma", flops = 524288 : i64
// BLACKWELL: scf.for
// BLACKWELL: name = "mma issue acc", op = "ttng.tc_gen5_mma", flops = 524288 : i64

// MBARRIER: name = "barrier init a, b", op = "ttng.init_barrier"
// MBARRIER: name = "barrier expect a, b", op = "ttng.barrier_expect"
// MBARRIER: name = "barrier inval acc", op = "ttng.inval_barrier"
// MBARRIER: name = "fence", op = "ttng.fence_async_shared"

// The atomic in the condition of the while loop runs once more than its body does: no record.
// BARRIER: scf.while
// BARRIER-NOT: profscope
// BARRIER: } do {
// BARRIER: name = "barrier", op = "ttg.barrier"
// BARRIER: name = "atomic", op = "tt.atomic_rmw"

// No record gets into the body of the reduction.
// REDUCE: name = "reduce x", op = "tt.reduce"
// REDUCE-NEXT: "tt.reduce"
// REDUCE-NOT: profscope
// REDUCE: }) : (tensor<1024xf32, #blocked>) -> f32
// REDUCE-NEXT: "profscope.end"() {id = 0 : i32}
// REDUCE: "tt.reduce"

// LOCAL: name = "tmem store acc", op = "ttng.tmem_store"
// LOCAL: name = "tmem load acc", op = "ttng.tmem_load"
// LOCAL: name = "local store", op = "ttg.local_store"

// LAYOUT: name = "convert layout{{.*}}", op = "ttg.convert_layout"
// LAYOUT-NEXT: ttg.convert_layout
// LAYOUT-NEXT: profscope.end

// A call is named after its function and line, which makes the path of nested calls.
// CALL: name = "call scaled_square L93", op = "tt.call"
// CALL-NEXT: tt.call @
// CALL-NEXT: profscope.end

// An end with an operand waits for its data; a store has none.
// LATENCY: name = "load x latency", op = "tt.load"
// LATENCY-NEXT: %x_12 = tt.load
// LATENCY-NEXT: "profscope.end"(%x_12) {id = {{[0-9]+}} : i32} : (tensor<128xf32, #blocked>) -> ()
// LATENCY: name = "store", op = "tt.store"
// LATENCY-NEXT: tt.store
// LATENCY-NEXT: "profscope.end"() {id = {{[0-9]+}} : i32} : () -> ()
