// RUN: profscope-opt %S/inputs/add.ttgir -p 'op-spans{classes=load},value-probe{names=x}' | FileCheck %s --check-prefix=LOAD
// RUN: profscope-opt %S/inputs/early_return.ttgir -p 'value-probe{classes=store}' | FileCheck %s --check-prefix=STORE
// RUN: profscope-opt %S/inputs/matmul_sm80.ttgir -p 'value-probe{ops=tt.dot}' | FileCheck %s --check-prefix=DOT
// RUN: profscope-opt %S/inputs/add.ttgir -p 'value-probe{lines=20;21 classes=load;store}' | FileCheck %s --check-prefix=LINE
// RUN: profscope-opt %S/inputs/matmul_sm80.ttgir -p 'value-probe{ops=tt.dot},lower-records' | FileCheck %s --check-prefix=LOWERED
// RUN: profscope-opt %S/inputs/matmul_tma_sm90.ttgir -p 'value-probe{classes=mma},lower-records' | FileCheck %s --check-prefix=HOPPER

// Behind the op's own span, and with its mask.
// LOAD: %x_5 = tt.load %x_4, [[MASK:%[a-z0-9_]+]]
// LOAD-NEXT: "profscope.end"() {id = 0 : i32}
// LOAD-NEXT: "profscope.begin"() {id = 2 : i32, kind = "op", name = "values of load x", op = "profscope.values"}
// LOAD-NEXT: "profscope.values"(%x_5, [[MASK]]) {id = 2 : i32} : (tensor<1024xf32, #blocked>, tensor<1024xi1, #blocked>) -> ()
// LOAD-NEXT: "profscope.end"() {id = 2 : i32}
// LOAD-NOT: profscope.values

// STORE: tt.store {{%[a-z0-9_]+}}, [[STORED:%[a-z0-9_]+]]
// STORE-NEXT: "profscope.begin"
// STORE-NEXT: "profscope.values"([[STORED]]

// DOT: scf.for
// DOT: [[ACC:%[a-z0-9_]+]] = tt.dot
// DOT-NEXT: name = "values of dot acc"
// DOT-NEXT: "profscope.values"([[ACC]]) {id = 0 : i32} : (tensor<64x64xf32, #mma>) -> ()
// DOT-NEXT: "profscope.end"() {id = 0 : i32}

// LINE-NOT: values of load x
// LINE: name = "values of load y"
// LINE: name = "values of store"

// LOWERED: [[NAN:%ps_values_0_is_nans]] = arith.cmpf uno, [[ACC:%[a-z0-9_]+]], [[ACC]] : tensor<64x64xf32, #mma>
// LOWERED: %ps_values_0_over1:6 = "tt.reduce"({{.*}}) <{axis = 1 : i32}> ({
// LOWERED: tensor<64xi32, #ttg.slice<{dim = 1, parent = #mma}>>
// LOWERED: %ps_values_0_over0:6 = "tt.reduce"({{.*}}) <{axis = 0 : i32}> ({
// LOWERED: -> (i32, i32, i32, i32, f32, f32)
// LOWERED-NOT: profscope.

// An asynchronous dot is waited for, and what used it uses what the wait returns.
// HOPPER: [[PRODUCT:%[a-z0-9_]+]] = ttng.warp_group_dot
// HOPPER: [[SETTLED:%ps_settled_0]] = ttng.warp_group_dot_wait [[PRODUCT]] {pendings = 0 : i32} : tensor<64x64xf32, #mma>
// HOPPER: arith.cmpf uno, [[SETTLED]], [[SETTLED]]
// HOPPER: ttng.warp_group_dot_wait [[SETTLED]], {{.*}} {pendings = 1 : i32}
