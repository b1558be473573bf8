// RUN: profscope-opt %S/inputs/call_paths.ttgir -p 'kernel-span,loop-spans,op-spans{classes=load;barrier},lower-records' | FileCheck %s --check-prefix=CALLS
// RUN: profscope-opt %S/inputs/joined_paths.ttgir -p 'kernel-span,loop-spans,iteration-spans,lower-records' | FileCheck %s --check-prefix=JOIN

// Every call path has a copy of the noinline function, which is handed the row, the lane that stores, what rings
// need, and the counts of its loops; it hands the counts back. The function itself is gone. The section's word
// is stored at once, since the callee may store before its caller does.
// CALLS: tt.func public @call_paths_kernel
// CALLS: st.global.cs.b32 [$1+0]{{.*}} [[SEGMENT:%ps_segment_0]], %ps_section_0, [[LANE:%ps_lane_0]]
// CALLS: {{%ps_clock_[0-9]+}} = {{.*}}%clock
// CALLS-NEXT: %total, [[FIRST:%ps_[0-9]+]] = tt.call @"{{.*}}row_sum{{.*}}__ps0"(%x_ptr, %pid, %cols, [[SEGMENT]], [[LANE]], [[LOG2:%ps_log2_0]], [[MASK:%ps_mask_0]], %ps_zero_0) : {{.*}} -> (f32, i32)
// CALLS-NEXT: {{%ps_clock_[0-9]+}} = {{.*}}%clock
// The row of a loop is cleared first: the call in the scf.if, and the paths in the function it calls, may not run.
// What stays there for the loop in it is the count so far.
// CALLS: scf.for %row {{.*}}[[SCORED:%ps_[0-9]+]] = %ps_zero_0, [[SUMMED:%ps_[0-9]+]] = %ps_zero_0)
// CALLS: [[ROW:%ps_row_[0-9]+]] = arith.addi
// CALLS-NEXT: st.global.cs.v4.b32 [$1+0]{{.*}} [[ROW]], %ps_zero_0, [[SCORED]], %ps_zero_0, %ps_zero_0, [[LANE]]
// CALLS-NEXT: st.global.cs.v4.b32 [$1+16]{{.*}} [[ROW]], %ps_zero_0, %ps_zero_0, %ps_zero_0, %ps_zero_0, [[LANE]]
// CALLS: %3, [[C0:%ps_[0-9]+]], [[C1:%ps_[0-9]+]], [[AFTER:%ps_[0-9]+]] = scf.if
// CALLS: {{.*}}, [[IN:%ps_[0-9]+]] = tt.call @"{{.*}}row_score{{.*}}__ps2"({{.*}}, [[ROW]], [[LANE]], [[SEGMENT]], [[LOG2]], [[MASK]], [[SCORED]])
// CALLS: scf.yield {{.*}}, [[IN]] :
// CALLS: scf.yield {{.*}}, %ps_zero_0, %ps_zero_0, [[SCORED]] :
// CALLS: tt.call @"{{.*}}row_sum{{.*}}__ps1"({{.*}}, [[ROW]], [[LANE]], [[SEGMENT]], [[LOG2]], [[MASK]], [[SUMMED]])
// CALLS: st.global{{.*}} [[ROW]], [[C0]], [[C1]],
// CALLS: tt.return
// CALLS-NOT: c128(
// CALLS: tt.func private @"{{.*}}row_sum{{.*}}__ps0"({{.*}}[[SEGMENT]]: i64, [[LANE]]: i1, [[LOG2]]: i64, [[MASK]]: i32, [[COUNT:%ps_count_[0-9]+]]: i32) -> (f32, i32)
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
