// A warp stores its place when it begins, at each iteration and behind a loop, and when it ends.
// RUN: profscope opt %S/inputs/while.ttgir -p progress | FileCheck %s
// RUN: profscope opt %S/inputs/gluon_ws.ttgir -p progress | FileCheck %s --check-prefix=PARTITIONS

// CHECK: profscope.manifest = 
// CHECK: "profscope.buffer"() : () -> !tt.ptr<i8>
// CHECK: [[WORD:%.*]] = tt.load {{.*}} : !tt.ptr<i64>
// CHECK: red.relaxed.gpu.global.add.u32 [$1+8], 1
// CHECK: [[SLOT:%.*]] = tt.elementwise_inline_asm "{{.*}}%smid{{.*}}%warpid{{.*}}" {{.*}} [[WORD]] : i64 -> i64
// CHECK: st.volatile.global.v4.b32 [$1+0], {{.*}} [[SLOT]], {{.*}} -> i32
// CHECK: scf.while ({{.*}}[[AT:%.*]] = %{{.*}})
// CHECK-NEXT: arith.constant
// CHECK-NEXT: arith.ori
// CHECK-NEXT: st.volatile.global.v4.b32 [$1+0], {{.*}} [[SLOT]], %{{[^,]*}}, [[AT]], {{.*}} -> i32
// CHECK: _later = arith.addi {{.*}} : i32
// CHECK-NEXT: scf.yield
// CHECK: st.volatile.global.v4.b32
// CHECK: red.relaxed.gpu.global.add.u32 [$1+12], 1
// CHECK-NEXT: tt.return

// A partition finds its own slots: its warps are others.
// PARTITIONS: ttg.warp_specialize({{.*}}%ps_word{{.*}}, %ps_cta
// PARTITIONS: partition0({{.*}}: i64, {{.*}}: i32)
// PARTITIONS: %warpid
// PARTITIONS: partition1({{.*}}: i64, {{.*}}: i32)
// PARTITIONS: %warpid
// PARTITIONS: ttg.warp_return
