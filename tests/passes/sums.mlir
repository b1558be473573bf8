// RUN: profscope-opt %S/inputs/nested_loops.ttgir -p 'kernel-span,loop-spans,lower-records{keep=sums}' | FileCheck %s --check-prefix=LOOP
// RUN: profscope-opt %S/inputs/nested_loops.ttgir -p 'kernel-span,loop-spans,lower-records{keep=totals}' | FileCheck %s --check-prefix=TOTALS
// RUN: profscope-opt %S/inputs/while.ttgir -p 'kernel-span,loop-spans,iteration-spans,lower-records{keep=sums}' | FileCheck %s --check-prefix=WHILE
// RUN: profscope-opt %S/inputs/call_paths.ttgir -p 'kernel-span,loop-spans,lower-records{keep=sums}' | FileCheck %s --check-prefix=CALL
// RUN: profscope-opt %S/inputs/early_return.ttgir -p 'kernel-span,op-spans{classes=store},lower-records{keep=sums}' | FileCheck %s --check-prefix=RETURN
// RUN: profscope-opt %S/inputs/gluon_ws_loop.ttgir -p 'kernel-span,loop-spans,lower-records{keep=sums}' | FileCheck %s --check-prefix=PARTITION
// RUN: profscope-opt %S/inputs/matmul_sm80.ttgir -p 'kernel-span,op-spans{classes=async_copy;wait},lower-records{keep=totals}' | FileCheck %s --check-prefix=FLIGHT

// A loop carries of each site in it the sum and the longest, and one count for its body. Differences are taken
// where the body ends. Nothing is stored before the kernel returns, and where to is found no earlier. Clocks that are
// read once are read on a condition.
// LOOP: tt.func public
// LOOP: [[FIRST:%ps_clock_[0-9]+]] = tt.elementwise_inline_asm "@$1 mov.u32 $0, %clock;" {{.*}} %ps_always_0 :
// LOOP-NEXT: %ps_time_0 = {{.*}}@$1 mov.u32 high, %globaltimer_hi;{{.*}} %ps_always_0 :
// LOOP-NOT: ps_segment
// LOOP: %total, {{%ps_[0-9]+, %ps_[0-9]+, %ps_[0-9]+, %ps_[0-9]+}}, [[OUT:%ps_[0-9]+]] = scf.for %row {{.*}}iter_args(%total_1 = %cst_0, [[SUM:%ps_[0-9]+]] = %ps_zero_0, [[LONGEST:%ps_[0-9]+]] = %ps_zero_0, {{.*}}, [[TIMES:%ps_[0-9]+]] = %ps_zero_0)
// LOOP: [[BEGIN:%ps_clock_[0-9]+]] = tt.elementwise_inline_asm "mov.u32 $0, %clock;"
// LOOP: scf.for %col
// LOOP-NOT: ps_
// LOOP: [[END:%ps_clock_[0-9]+]] = {{.*}}%clock
// LOOP: scf.for %other
// LOOP: {{%ps_clock_[0-9]+}} = {{.*}}%clock
// LOOP: [[D:%ps_lasted_[0-9]+]] = arith.subi [[END]], [[BEGIN]]
// LOOP-NEXT: [[D]]_sum = arith.addi [[SUM]], [[D]]
// LOOP-NEXT: [[D]]_longest = arith.maxui [[LONGEST]], [[D]]
// LOOP: [[NOW:%ps_times_[0-9]+]] = arith.addi [[TIMES]], %ps_one_0
// LOOP-NOT: st.global.cs
// LOOP: scf.yield {{.*}}, [[D]]_sum, [[D]]_longest, {{.*}}, [[NOW]] :
// LOOP: [[ALL:%ps_lasted_[0-9]+]] = arith.subi
// LOOP: [[ALL]]_sum = arith.addi %ps_zero_0, [[ALL]]
// LOOP: %ps_segment_
// LOOP: setp.lt.and.u32 here, of, 3, $14;{{.*}}@here st.global.cs.v4{{.*}} [[ALL]]_sum, {{.*}}[[OUT]], {{.*}}%ps_chosen_1 :
// LOOP-NEXT: setp.gt.u32 away, tid, 31;{{.*}}%clock64{{.*}}@lead st.global.cs.v4.b32 [to+64]{{.*}}, [[FIRST]], %ps_time_0 :
// LOOP-NEXT: tt.return

// TOTALS: _sum = arith.addi
// TOTALS-NOT: arith.maxui

// An iteration lasts until the next one begins: the first has none before it. What is behind the loop has the clock
// that ends the last.
// WHILE: %steps:2, [[BEHIND:%ps_[0-9]+]], [[SO:%ps_[0-9]+]], {{.*}} = scf.while ({{.*}} = %ps_zero_0
// WHILE: ^bb0({{.*}}, [[LAST:%ps_[0-9]+]]: i32, [[SUM:%ps_[0-9]+]]: i32, {{.*}}, [[TIMES:%ps_[0-9]+]]: i32):
// WHILE-NEXT: [[CLOCK:%ps_clock_[0-9]+]] = {{.*}}%clock
// WHILE: [[D:%ps_lasted_[0-9]+]] = arith.subi [[CLOCK]], [[LAST]]
// WHILE-NEXT: [[D]]_follows = arith.cmpi ne, [[LAST]], %ps_zero_0
// WHILE-NEXT: [[D]]_ran = arith.select [[D]]_follows, [[D]], %ps_zero_0
// WHILE-NEXT: [[D]]_sum = arith.addi [[SUM]], [[D]]_ran
// WHILE: [[NOW:%ps_times_[0-9]+]] = arith.addi [[TIMES]], %ps_one_0
// WHILE: scf.yield {{.*}}, [[CLOCK]], [[D]]_sum, [[D]]_longest, [[NOW]] :
// WHILE: [[END:%ps_clock_[0-9]+]] = {{.*}}%clock
// WHILE: [[REST:%ps_lasted_[0-9]+]] = arith.subi [[END]], [[BEHIND]]
// WHILE: [[REST]]_sum = arith.addi [[SO]], [[REST]]_ran

// A noinline function is handed the sums of its own sites, and gives them back. In a branch that does not run,
// they stay as they were.
// CALL: {{.*}}, [[A:%ps_[0-9]+]], [[B:%ps_[0-9]+]] = tt.call @"{{.*}}row_sum{{.*}}__ps0"(%x_ptr, %pid, %cols, %ps_zero_0, %ps_zero_0)
// CALL: scf.for %row
// CALL: scf.if
// CALL: tt.call @"{{.*}}row_score{{.*}}__ps2"(
// CALL: [[TIMES:%ps_times_[0-9]+]] = arith.addi [[BEFORE:%ps_[0-9]+]], %ps_one_0
// CALL: scf.yield {{.*}}, [[TIMES]], {{.*}} :
// CALL: scf.yield {{.*}}, [[BEFORE]], {{.*}} :
// CALL: st.global.cs.v4{{.*}} [[A]], [[B]]
// CALL: tt.return
// CALL: tt.func private @"{{.*}}row_sum{{.*}}__ps0"({{.*}}, [[SUM:%ps_count_[0-9]+]]: i32, [[LONGEST:%ps_count_[0-9]+]]: i32) -> (f32, i32, i32)
// CALL: [[D:%ps_lasted_[0-9]+]]_sum = arith.addi [[SUM]], [[D]]
// CALL: tt.return {{.*}}, [[D]]_sum, [[D]]_longest : f32, i32, i32

// Each way out stores the whole row; sites that were not come by are zero.
// RETURN: cf.cond_br
// RETURN: [[ALL:%ps_lasted_[0-9]+]] = arith.subi
// RETURN: st.global.cs.v4{{.*}} [[ALL]]_sum, [[ALL]]_longest, %ps_zero_0, %ps_zero_0
// RETURN: tt.return
// RETURN: st.global.cs.v4
// RETURN: tt.return
// RETURN: st.global.cs.v4
// RETURN: tt.return

// The default region hands its sums to the loop around it. A partition that is entered again finds its own in
// memory, and counts the entries.
// PARTITION: scf.for %tile {{.*}}iter_args(%total_0 = %cst, [[SUM:%ps_[0-9]+]] = %ps_zero_0, [[LONGEST:%ps_[0-9]+]] = %ps_zero_0
// PARTITION: {{%[0-9]+}}:2, [[OUT:%ps_[0-9]+]], {{%ps_[0-9]+}} = ttg.warp_specialize(
// PARTITION: [[D:%ps_lasted_[0-9]+]]_sum = arith.addi [[SUM]], [[D]]
// PARTITION: ttg.warp_yield {{.*}}, [[D]]_sum, [[D]]_longest :
// PARTITION: partition0(
// PARTITION: [[ENTRIES:%ps_sum_[0-9]+]] = tt.load {{.*}}, %ps_lane_1, %ps_zero_1
// PARTITION: [[NOW:%ps_times_[0-9]+]] = arith.addi [[ENTRIES]], %ps_one_1
// PARTITION-NEXT: st.global.cs.v4{{.*}} %ps_segment_1, %ps_section_1, [[NOW]],
// PARTITION: ttg.warp_return
// PARTITION: scf.yield {{.*}}, [[OUT]],

// How much is under way is counted where it is started, and told again where a wait has returned; the clocks are
// added up with the other sums. The wait in the loop leaves what the last groups have: two of each copy.
// FLIGHT: [[FIRST:%ps_started_[0-9]+]] = arith.addi %ps_zero_0, %ps_one_0
// FLIGHT: scf.for
// FLIGHT: [[L:%ps_landed_[0-9]+]]_number = arith.constant {{[0-9]+}} : i32
// FLIGHT-NEXT: [[L]]_least = arith.minui [[LEFT:%ps_[0-9]+]], [[L]]_number
// FLIGHT-NEXT: [[L]]_all = arith.subi [[LEFT]], [[L]]_least
// FLIGHT-NEXT: [[L]] = arith.subi [[LEFT]], [[L]]_all
// FLIGHT: {{%ps_started_[0-9]+}} = arith.addi [[L]], %ps_one_0
// FLIGHT: [[F:%ps_flown_[0-9]+]]_clocks = arith.muli {{%ps_clock_[0-9]+}}, [[L]]_all
// FLIGHT-NEXT: [[F]] = arith.addi {{%ps_[0-9]+}}, [[F]]_clocks
// FLIGHT: scf.yield
