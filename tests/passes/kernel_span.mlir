// One span a warp: begins with the kernel, ends at every return.
// RUN: profscope opt %S/inputs/early_return.ttgir -p kernel-span | FileCheck %s
// RUN: profscope opt %S/inputs/gluon_ws.ttgir -p kernel-span | FileCheck %s --check-prefix=PARTITIONS

// CHECK: tt.func public @early_return_kernel
// CHECK-NEXT: "profscope.begin"() {id = 0 : i32, kind = "kernel", name = "early_return_kernel", op = "tt.func"} : () -> () loc(#loc)
// CHECK-NOT: profscope.begin
// CHECK: ^bb1:
// CHECK-NEXT: "profscope.end"() {id = 0 : i32} : () -> () loc([[FIRST:#loc[0-9]*]])
// CHECK-NEXT: tt.return loc([[FIRST]])
// CHECK: ^bb3:
// CHECK: tt.store
// CHECK-NEXT: "profscope.end"() {id = 0 : i32}
// CHECK-NEXT: tt.return
// CHECK: ^bb4:
// CHECK: tt.store
// CHECK-NEXT: "profscope.end"() {id = 0 : i32}
// CHECK-NEXT: tt.return
// CHECK-NOT: profscope

// A partition runs on warps of its own, so it has a span of its own; the default region is part of the kernel.
// PARTITIONS: tt.func public @gluon_ws_kernel
// PARTITIONS-NEXT: "profscope.begin"() {id = 0 : i32, kind = "kernel", name = "gluon_ws_kernel", op = "tt.func"}
// PARTITIONS: default {
// PARTITIONS-NOT: profscope
// PARTITIONS: partition0
// PARTITIONS-NEXT: "profscope.begin"() {id = 1 : i32, kind = "kernel", name = "gluon_ws_kernel partition0", op = "ttg.warp_specialize"}
// PARTITIONS: "profscope.end"() {id = 1 : i32}
// PARTITIONS-NEXT: ttg.warp_return
// PARTITIONS: partition1
// PARTITIONS-NEXT: "profscope.begin"() {id = 2 : i32, kind = "kernel", name = "gluon_ws_kernel partition1", op = "ttg.warp_specialize"}
// PARTITIONS: "profscope.end"() {id = 2 : i32}
// PARTITIONS-NEXT: ttg.warp_return
// PARTITIONS: "profscope.end"() {id = 0 : i32}
// PARTITIONS-NEXT: tt.return
