// RUN: profscope opt %S/inputs/add.ttgir -p 'ablate{ops=tt.store}' | FileCheck %s --check-prefix=STORE
// RUN: profscope opt %S/inputs/branch_in_loop.ttgir -p 'ablate{ops=tt.load}' | FileCheck %s --check-prefix=LOAD
// RUN: profscope opt %S/inputs/matmul_sm80.ttgir -p 'ablate{ops=ttg.async_copy_global_to_local lines=34}' | FileCheck %s --check-prefix=COPY
// RUN: profscope opt %S/inputs/matmul_tma_sm90.ttgir -p 'ablate{ops=ttng.async_tma_copy_global_to_local}' | FileCheck %s --check-prefix=TMA
// RUN: profscope opt %S/inputs/matmul_sm80.ttgir -p 'ablate{ops=tt.dot}' | FileCheck %s --check-prefix=DOT
// RUN: profscope opt %S/inputs/softmax.ttgir -p 'ablate{ops=tt.reduce}' | FileCheck %s --check-prefix=REDUCE
// RUN: profscope opt %S/inputs/gluon_ws.ttgir -p 'ablate{ops=tt.store}' | FileCheck %s --check-prefix=PARTITION
// RUN: profscope opt %S/inputs/matmul_gfx942.ttgir -p 'ablate{ops=ttg.local_store}' | FileCheck %s --check-prefix=AMD
// RUN: profscope opt %S/inputs/softmax.ttgir -p 'ablate{ops=ttg.async_copy_global_to_local how=resident memory=1:65536}' | FileCheck %s --check-prefix=RESIDENT

// A condition that never holds, of an argument that the compiler does not know, joins the mask.
// STORE: [[AT:%[a-z0-9_]+]] = tt.ptr_to_int %x_ptr : !tt.ptr<f32> -> i64
// STORE: [[HIGH:%[a-z0-9_]+]] = arith.shrsi [[AT]]
// STORE: [[SIGN:%[a-z0-9_]+]] = arith.trunci [[HIGH]] : i64 to i32
// STORE: [[NEVER:%[a-z0-9_]+]] = arith.cmpi slt, [[SIGN]]
// STORE: [[ALL:%[a-z0-9_]+]] = tt.splat [[NEVER]] : i1 -> tensor<1024xi1, #blocked>
// STORE: [[BOTH:%[a-z0-9_]+]] = arith.andi %mask_3, [[ALL]] : tensor<1024xi1, #blocked>
// STORE: tt.store %{{[0-9]+}}, %{{[0-9]+}}, [[BOTH]] : tensor<1024x!tt.ptr<f32>, #blocked>

// A load gives zeros then, so that its registers have a value.
// LOAD: [[ZERO:%ablate_[0-9]+]] = arith.constant dense<0.000000e+00> : tensor
// LOAD: tt.load %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, [[ZERO]]

// All copies of the line, before the loop and in it.
// COPY: %a_{{[0-9]+}} = ttg.async_copy_global_to_local {{.*}} mask %ablate_
// COPY: %a_{{[0-9]+}} = ttg.async_copy_global_to_local {{.*}} mask %ablate_

// The barrier waits for so many bytes less: two copies of 8,192 bytes are left out.
// TMA: ttng.barrier_expect {{[^ ]+}}, 0,
// TMA: ttng.async_tma_copy_global_to_local {{.*}}, %ablate_{{[0-9]+}} :

// The accumulator goes on. LLVM may not see that the condition is the same in all steps.
// DOT: [[MOVED:%[a-z0-9_]+]] = tt.elementwise_inline_asm "mov.b32 $0, $1;"{{.*}} pure = false}
// DOT: arith.cmpi slt, [[MOVED]]
// DOT: [[ACC:%acc_[0-9]+]] = scf.if
// DOT-NEXT: [[NEW:%[a-z0-9_]+]] = tt.dot {{.*}}, [[OLD:%acc_[0-9]+]], inputPrecision
// DOT-NEXT: scf.yield [[NEW]]
// DOT-NEXT: } else {
// DOT-NEXT: scf.yield [[OLD]]

// What is reduced has a use outside of the branch, so that it is computed there.
// REDUCE: tt.store %ablate_{{[0-9]+}}_pointers, %x_13, %ablate_{{[0-9]+}}_mask
// REDUCE: %x_14 = scf.if
// REDUCE-NEXT: "tt.reduce"(%x_13)
// REDUCE: %y = scf.if

// What the function has is handed to the partitions.
// PARTITION: ttg.warp_specialize(%x_ptr, %out_ptr, [[SIGN:%ablate_[0-9]+]])
// PARTITION: partition0(%{{[^,]+}}, %{{[^,]+}}, [[OWN:%[a-z0-9_]+]]: i32)
// PARTITION: arith.cmpi slt, [[OWN]]

// AMD: tt.elementwise_inline_asm "v_mov_b32 $0, $1" {constraints = "=v,v"
// AMD: scf.if
// AMD-NEXT: ttg.local_store

// Eight tiles of 1,024 elements.
// RESIDENT: [[EIGHT:%ablate_[0-9]+]] = arith.constant 8 : i32
// RESIDENT: arith.remui {{.*}}, [[EIGHT]] : i32
// RESIDENT: tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32, #blocked>
// RESIDENT: ttg.async_copy_global_to_local %ablate_
