// RUN: profscope opt %S/inputs/add.ttgir -p kernel-span,lower-records,allocate-buffer --triton 3.6 | FileCheck %s --check-prefixes=SIZES,T36
// RUN: profscope opt %S/inputs/add.ttgir -p kernel-span,lower-records,allocate-buffer --triton 3.7 | FileCheck %s --check-prefixes=SIZES,T37
// RUN: profscope opt %S/inputs/add.ttgir -p kernel-span,lower-records,allocate-buffer --triton 3.8 | FileCheck %s --check-prefixes=T38
// RUN: profscope opt %S/inputs/add.ttgir -p kernel-span,lower-records,allocate-buffer --triton 3.9.1 | FileCheck %s --check-prefixes=T38

// SIZES: module attributes {
// SIZES-SAME: ttg.profile_scratch_memory_size = [[BYTES:[0-9]+]] : i32
// SIZES-SAME: ttg.profile_scratch_memory_alignment = [[ALIGNMENT:[0-9]+]] : i32
// T36: proton_gpu.global_scratch_alloc {offset = 0 : i32, alignment = [[ALIGNMENT]] : i32, nbytes = [[BYTES]] : i32} : !tt.ptr<i8>
// T37: ttg.global_scratch_alloc {backend = "proton", offset = 0 : i32, alignment = [[ALIGNMENT]] : i32, nbytes = [[BYTES]] : i32} : !tt.ptr<i8>
// T38-NOT: ttg.profile_scratch_memory
// T38: ttg.global_scratch_alloc {alignment = {{[0-9]+}} : i32, nbytes = {{[0-9]+}} : i32, third_party_allocation} : !tt.ptr<i8>
