// RUN: profscope opt %S/inputs/call_paths.ttgir -p 'kernel-span,loop-spans,op-spans{classes=load;barrier},lower-records' | FileCheck %s --check-prefix=CALLS
// RUN: profscope opt %S/inputs/joined_paths.ttgir -p 'kernel-span,loop-spans,iteration-spans,lower-records' | FileCheck %s --check-prefix=JOIN
// RUN: profscope opt %S/inputs/gluon_ws_loop.ttgir -p 'kernel-span,loop-spans,iteration-spans,lower-records' | FileCheck %s --check-prefix=REENTERED
// RUN: profscope opt %S/inputs/add_cluster_sm90.ttgir -p 'kernel-span,lower-records' | FileCheck %s --check-prefix=CLUSTER
// RUN: profscope opt %S/inputs/add.ttgir -p 'kernel-span,lower-records' | FileCheck %s --check-prefix=ALONE
// RUN: profscope opt %S/inputs/softmax.ttgir -p 'op-spans{classes=reduce},lower-records' | FileCheck %s --check-prefix=REDUCE
// RUN: profscope opt %S/inputs/matmul_tma_sm90.ttgir --triton 3.8 -p 'kernel-span,loop-spans,iteration-spans,lower-records,allocate-buffer' | FileCheck %s --check-prefix=PERSISTENT

// Every call path has a copy of the noinline function, which is handed the row, the lane that stores, what rings
// need, and the counts of its loops; it hands the counts back. The function itself is gone.
// CALLS: tt.func public @call_paths_kernel
// CALLS: {{%ps_clock_[0-9]+}} = {{.*}}%clock
// CALLS: %total, [[FIRST:%ps_[0-9]+]] = tt.call @"{{.*}}row_sum{{.*}}__ps0"(%x_ptr, %pid, %cols, [[SEGMENT:%ps_segment_0]], [[LANE:%ps_leads_0]], [[LOG2:%ps_ring_0]], [[MASK:%ps_mask_0]], %ps_zero_0) : {{.*}} -> (f32, i32)
// CALLS-NEXT: {{%ps_clock_[0-9]+}} = {{.*}}%clock
// The row of a loop is cleared first: the call in the scf.if, and the paths in the function it calls, may not run.
// What stays there for the loop in it is the count so far.
// CALLS: scf.for %row {{.*}}[[SCORED:%ps_[0-9]+]] = %ps_zero_0, [[SUMMED:%ps_[0-9]+]] = %ps_zero_0)
// CALLS: [[ROW:%ps_row_[0-9]+]] = arith.addi
// CALLS-NEXT: st.global.cs.v4.b32 [$1+{{[0-9]+}}]{{.*}} [[ROW]], %ps_zero_0, [[SCORED]], %ps_zero_0, %ps_zero_0, [[LANE]]
// CALLS-NEXT: st.global.cs.v4.b32 [$1+{{[0-9]+}}]{{.*}} [[ROW]], %ps_zero_0, %ps_zero_0, %ps_zero_0, %ps_zero_0, [[LANE]]
// CALLS: %3, [[C0:%ps_[0-9]+]], [[C1:%ps_[0-9]+]], [[AFTER:%ps_[0-9]+]] = scf.if
// CALLS: {{.*}}, [[IN:%ps_[0-9]+]] = tt.call @"{{.*}}row_score{{.*}}__ps2"({{.*}}, [[ROW]], [[LANE]], [[SEGMENT]], [[LOG2]], [[MASK]], [[SCORED]])
// CALLS: scf.yield {{.*}}, [[IN]] :
// CALLS: scf.yield {{.*}}, %ps_zero_0, %ps_zero_0, [[SCORED]] :
// CALLS: tt.call @"{{.*}}row_sum{{.*}}__ps1"({{.*}}, [[ROW]], [[LANE]], [[SEGMENT]], [[LOG2]], [[MASK]], [[SUMMED]])
// CALLS: st.global{{.*}} [[ROW]], [[C0]], [[C1]],
// CALLS: tt.return
// CALLS-NOT: c128(
// CALLS: tt.func private @"{{.*}}row_sum{{.*}}__ps0"({{.*}}[[SEGMENT]]: i64, [[LANE]]: i1, [[LOG2]]: i32, [[MASK]]: i32, [[COUNT:%ps_count_[0-9]+]]: i32) -> (f32, i32)
// CALLS: [[ROWS:%ps_[0-9]+]] = scf.for %col {{.*}}, {{%ps_[0-9]+}} = [[COUNT]])
// CALLS: st.global{{.*}} [[SEGMENT]], {{%ps_clock_[0-9]+}}, [[ROWS]],
// CALLS-NEXT: tt.return {{.*}}, [[ROWS]] : f32, i32
// The paths through a function meet with different counts.
// CALLS: tt.func private @"{{.*}}row_score{{.*}}__ps2"({{.*}}[[BEFORE:%ps_count_[0-9]+]]: i32)
// CALLS: cf.cond_br {{.*}}, ^bb1(%cst, [[BEFORE]] : f32, i32), ^bb2
// CALLS: ^bb1({{.*}}: f32, [[MET:%ps_[0-9]+]]: i32):
// CALLS-NEXT: tt.return {{.*}}, [[MET]] : f32, i32
// CALLS: [[RAN:%ps_[0-9]+]] = tt.call @"{{.*}}row_sum{{.*}}__ps3"
// CALLS: st.global{{.*}} [[ROW]],
// CALLS: cf.cond_br {{.*}}, ^bb1(%total, [[RAN]] : f32, i32)
// CALLS: tt.return {{.*}}, [[RAN]] : f32, i32
// CALLS: tt.func private @"{{.*}}row_sum{{.*}}__ps3"

// Paths that ran different loops join: the counts come as arguments of the block.
// JOIN: [[A:%ps_[0-9]+]] = scf.for %i = %c0_i32 to %n
// JOIN: cf.br ^bb5({{.*}}, [[A]], %ps_zero_0 : tensor<128xf32, #blocked>, i32, i32)
// JOIN: [[B:%ps_[0-9]+]] = scf.for %i = %c0_i32 to %pid
// JOIN: cf.br ^bb5({{.*}}, %ps_zero_0, [[B]] : tensor<128xf32, #blocked>, i32, i32)
// JOIN: ^bb5({{.*}}, {{%ps_[0-9]+}}: i32, {{%ps_[0-9]+}}: i32):

// A partition in a loop has a row for each entry. What it counts stays in the root row, in memory: the lane loads
// it when it comes in, and stores it before it leaves. The default region hands its counts to the loop around it.
// REENTERED: scf.for %tile {{.*}}[[OUTER:%ps_[0-9]+]] = %ps_zero_0, [[INNER:%ps_[0-9]+]] = %ps_zero_0)
// REENTERED: {{%[0-9]+:2}}, [[OUT:%ps_[0-9]+]] = ttg.warp_specialize(
// REENTERED: [[COUNT:%ps_[0-9]+]] = scf.for {{.*}}, {{%ps_[0-9]+}} = [[INNER]])
// REENTERED: ttg.warp_yield {{.*}}, [[COUNT]] : f32, i32, i32
// REENTERED: partition0(
// REENTERED-NEXT: [[CLOCK:%ps_clock_[0-9]+]] = {{.*}}%clock
// REENTERED: [[AT:%ps_kept_[0-9]+]]_offset = arith.constant 100 : i64
// REENTERED: [[AT]]_address = arith.addi [[SEGMENT:%ps_segment_1]], [[AT]]_offset : i64
// REENTERED: [[ENTRY:%ps_count_[0-9]+]] = tt.load [[AT]]_word, [[LANE:%ps_leads_1]], %ps_zero_1 : !tt.ptr<i32>
// REENTERED: arith.constant 104 : i64
// REENTERED: [[ROWS:%ps_count_[0-9]+]] = tt.load
// REENTERED: arith.constant 108 : i64
// REENTERED: [[NESTED:%ps_count_[0-9]+]] = tt.load
// REENTERED: [[SLOT:%ps_at_[0-9]+]]_slot = arith.andi [[ENTRY]], %ps_mask_1
// REENTERED: [[ROW:%ps_row_[0-9]+]] = arith.addi [[SLOT]]_start
// REENTERED: [[NOW:%ps_[0-9]+]], [[NESTEDNOW:%ps_[0-9]+]] = scf.for {{.*}}iter_args({{%ps_[0-9]+}} = [[ROWS]], {{%ps_[0-9]+}} = [[NESTED]])
// REENTERED: st.global{{.*}} [[ROW]], [[CLOCK]], {{.*}}, [[NOW]], {{.*}}, [[LANE]]
// REENTERED: [[NEXT:%ps_count_[0-9]+]] = arith.addi [[ENTRY]], %ps_one_1
// REENTERED-NEXT: st.global.cs.v4.b32 [$1+96]{{.*}} [[SEGMENT]], %ps_section_1, [[NEXT]], [[NOW]], [[NESTEDNOW]], [[LANE]]
// REENTERED-NEXT: ttg.warp_return
// REENTERED: -> (f32, i32, i32)
// REENTERED: scf.yield {{.*}}, {{%ps_count_[0-9]+}}, [[OUT]] :

// The CTAs of a cluster say which of it they are; a CTA alone does not ask.
// CLUSTER: "ttg.num-ctas" = 2
// CLUSTER: %cluster_ctarank
// CLUSTER: tt.return
// ALONE: tt.func public
// ALONE-NOT: %cluster_ctarank
// ALONE: tt.return

// Nothing is recorded in a region that runs per element.
// REDUCE: [[BEFORE:%ps_clock_[0-9]+]] = {{.*}}%clock
// REDUCE-NEXT: "tt.reduce"
// REDUCE-NEXT: ^bb0
// REDUCE-NOT: tt.elementwise_inline_asm
// REDUCE: tt.reduce.return
// REDUCE-NEXT: }) :
// REDUCE-NEXT: [[AFTER:%ps_clock_[0-9]+]] = {{.*}}%clock

// A persistent kernel: the loop over tiles carries the count of the loop in it. The memory that the kernel asks for
// itself, for its descriptors, stays apart from ours.
// PERSISTENT: ttg.global_scratch_alloc {{{.*}}, third_party_allocation}
// PERSISTENT: %a_desc_0 = ttg.global_scratch_alloc {alignment = 128 : i32, nbytes = 128 : i32} :
// PERSISTENT: scf.for %tile {{.*}}iter_args([[TILES:%ps_[0-9]+]] = %ps_zero_0, [[STEPS:%ps_[0-9]+]] = %ps_zero_0)
// PERSISTENT: [[DONE:%ps_[0-9]+]] = scf.for {{.*}}, {{%ps_[0-9]+}} = [[STEPS]])
// PERSISTENT: st.global{{.*}} [[DONE]],
// PERSISTENT: [[NEXT:%ps_count_[0-9]+]] = arith.addi [[TILES]], %ps_one_0
// PERSISTENT: scf.yield [[NEXT]], [[DONE]] :
