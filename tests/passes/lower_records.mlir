// RUN: profscope opt %S/inputs/add.ttgir -p 'kernel-span,op-spans{classes=load},lower-records' | FileCheck %s --check-prefix=STRAIGHT
// RUN: profscope opt %S/inputs/branch_in_loop.ttgir -p 'kernel-span,loop-spans,op-spans{classes=load;store},lower-records' | FileCheck %s --check-prefix=IF
// RUN: profscope opt %S/inputs/branches.ttgir -p 'op-spans{classes=load;store},lower-records' | FileCheck %s --check-prefix=ELSE
// RUN: profscope opt %S/inputs/nested_loops.ttgir -p 'kernel-span,loop-spans,iteration-spans,lower-records' | FileCheck %s --check-prefix=NESTED
// RUN: profscope opt %S/inputs/while.ttgir -p 'kernel-span,loop-spans,iteration-spans,lower-records' | FileCheck %s --check-prefix=WHILE
// RUN: profscope opt %S/inputs/gluon_ws.ttgir -p 'kernel-span,loop-spans,op-spans{classes=load},lower-records' | FileCheck %s --check-prefix=PARTITIONS
// RUN: profscope opt %S/inputs/early_return.ttgir -p 'kernel-span,op-spans{classes=store},lower-records' | FileCheck %s --check-prefix=RETURNS
// RUN: profscope opt %S/inputs/nested_loops.ttgir -p '%S/../../examples/own_pass/own_pass.py:load-steps,lower-records' | FileCheck %s --check-prefix=PAYLOAD
// RUN: profscope opt %S/inputs/matmul_tma_sm90.ttgir -p 'op-spans{classes=async_copy},lower-records' | FileCheck %s --check-prefix=PREDICATED

// Straight line: first the clock of the kernel's start, then the set-up; stores wait for the end, four words each.
// STRAIGHT: profscope.manifest = "{{.*}}add_kernel
// STRAIGHT: tt.func public @add_kernel(
// STRAIGHT-NEXT: [[START:%ps_clock_[0-9]+]] = tt.elementwise_inline_asm "mov.u32 $0, %clock;"
// STRAIGHT-NEXT: "profscope.buffer"() : () -> !tt.ptr<i8>
// STRAIGHT-NOT: %ps_section
// STRAIGHT: @away bra.uni done;{{.*}}%clock;{{.*}}%globaltimer;{{.*}}@lead st.global.cs.v4.b32 [$1+64]{{.*}}@away bra.uni done;{{.*}}@lead st.global.cs.v4.b32 [$1+0]
// STRAIGHT: [[BEFORE:%ps_clock_[0-9]+]] = tt.elementwise_inline_asm "mov.u32 $0, %clock;"
// STRAIGHT-NEXT: %x_5 = tt.load
// STRAIGHT-NEXT: [[AFTER:%ps_clock_[0-9]+]] = tt.elementwise_inline_asm "mov.u32 $0, %clock;"
// STRAIGHT-NOT: st.global
// STRAIGHT: tt.store
// STRAIGHT-NEXT: [[END:%ps_clock_[0-9]+]] = tt.elementwise_inline_asm "mov.u32 $0, %clock;"
// STRAIGHT-NEXT: st.global.cs.v4.b32 [$1+96]{{.*}} [[SEGMENT:%[a-z0-9_]+]], [[START]], [[BEFORE]], [[AFTER]], {{%ps_clock_[0-9]+}}, [[LANE:%[a-z0-9_]+]] : i64, i32, i32, i32, i32, i1
// STRAIGHT-NEXT: st.global.cs.v2.b32 [$1+112]{{.*}} [[SEGMENT]], {{.*}}, [[END]], [[LANE]] :
// STRAIGHT-NEXT: @away bra.uni done;{{.*}}%clock64{{.*}}%globaltimer{{.*}}@lead st.global.cs.v2.b64 [$1+80]
// STRAIGHT-NEXT: tt.return

// A loop carries the number of rows written. What an scf.if records leaves it as results, zero where it did not run.
// IF: scf.for {{.*}} iter_args({{.*}}, [[COUNT:%ps_[0-9]+]] = %ps_zero_0) -> (tensor<128xf32, #blocked>, i32, i32)
// IF: arith.andi [[COUNT]],
// IF: [[ROW:%ps_row_[0-9]+]] = arith.addi
// IF: [[L0:%ps_clock_[0-9]+]] = {{.*}}%clock
// IF-NEXT: tt.load
// IF-NEXT: [[L1:%ps_clock_[0-9]+]] = {{.*}}%clock
// IF: [[S0:%ps_[0-9]+]], [[S1:%ps_[0-9]+]] = scf.if %8 -> (i32, i32) {
// IF: [[C0:%ps_clock_[0-9]+]] = {{.*}}%clock
// IF-NEXT: tt.store
// IF-NEXT: [[C1:%ps_clock_[0-9]+]] = {{.*}}%clock
// IF-NEXT: scf.yield [[C0]], [[C1]] : i32, i32
// IF-NEXT: } else {
// IF-NEXT: scf.yield %ps_zero_0, %ps_zero_0 : i32, i32
// IF: st.global.cs.v4.b32 {{.*}} [[ROW]], [[L0]], [[L1]], [[S0]], [[S1]], %ps_leads_0
// IF-NEXT: [[NEXT:%ps_count_[0-9]+]] = arith.addi [[COUNT]], %ps_one_0 : i32
// IF-NEXT: scf.yield {{.*}}, [[NEXT]] :

// Both sides of an scf.if record; a loop inside hands its counter out of the scf.if.
// ELSE: %1, [[A0:%ps_[0-9]+]], [[A1:%ps_[0-9]+]], [[ROWS:%ps_[0-9]+]], [[B0:%ps_[0-9]+]], [[B1:%ps_[0-9]+]], [[COUNTER:%ps_[0-9]+]] = scf.if
// ELSE: [[A:%ps_clock_[0-9]+]] = {{.*}}%clock
// ELSE-NEXT: tt.load
// ELSE: [[LOOP:%ps_[0-9]+]] = scf.for
// ELSE: scf.yield %acc_2, [[A]], {{%ps_clock_[0-9]+}}, [[LOOP]], %ps_zero_0, %ps_zero_0, [[LOOP]] :
// ELSE-NEXT: } else {
// ELSE: tt.store
// ELSE: scf.yield %cst, %ps_zero_0, %ps_zero_0, %ps_zero_0, {{%ps_clock_[0-9]+, %ps_clock_[0-9]+}}, %ps_zero_0 :
// ELSE: st.global{{.*}} [[A0]], [[A1]], [[ROWS]], [[B0]],
// ELSE: st.global{{.*}} [[B1]],

// The outer loop carries its own counter and those of the loops in it, and its row stores how far they got.
// NESTED: scf.for %row {{.*}} [[OUTER:%ps_[0-9]+]] = %ps_zero_0, [[FIRST:%ps_[0-9]+]] = %ps_zero_0, [[SECOND:%ps_[0-9]+]] = %ps_zero_0)
// NESTED: [[A:%ps_[0-9]+]] = scf.for %col {{.*}} = [[FIRST]])
// NESTED: scf.yield %best
// NESTED: [[B:%ps_[0-9]+]] = scf.for %other {{.*}}iter_args({{%ps_[0-9]+}} = [[SECOND]])
// NESTED-DAG: st.global{{.*}} [[A]],
// NESTED-DAG: st.global{{.*}} [[B]],
// NESTED: scf.yield %total_4, {{%ps_count_[0-9]+}}, [[A]], [[B]] :

// WHILE: %steps:2, [[ROWS:%ps_[0-9]+]] = scf.while ({{.*}}, [[BEFORE:%ps_[0-9]+]] = %ps_zero_0) : (i32, i32, i32) -> (i32, i32, i32)
// WHILE: scf.condition(%1) %value_1, %steps_2, [[BEFORE]] : i32, i32, i32
// WHILE: ^bb0({{.*}}, [[IN:%ps_[0-9]+]]: i32):
// WHILE: [[NEXT:%ps_count_[0-9]+]] = arith.addi [[IN]], %ps_one_0
// WHILE-NEXT: scf.yield %value_8, %steps_9, [[NEXT]] : i32, i32, i32
// WHILE: st.global{{.*}} [[ROWS]],

// Partitions get the buffer's address as one more capture and find their warps' segments themselves. Three
// iterations are static: three rows, no mask.
// PARTITIONS: ttg.warp_specialize(%x_ptr, %out_ptr, {{%ps_.*}})
// PARTITIONS: st.global
// PARTITIONS: ttg.warp_yield
// PARTITIONS: partition0({{.*}}, [[OWN:%ps_[0-9]+]]: i64{{.*}}) num_warps(1) {
// PARTITIONS-NEXT: %clock
// PARTITIONS-NEXT: %tid.x
// PARTITIONS: mad.wide.u32{{.*}}, [[OWN]] :
// PARTITIONS: [[SECTION:%ps_section_[0-9]+]] = arith.constant 2 : i32
// PARTITIONS: scf.for
// PARTITIONS-NOT: arith.andi
// PARTITIONS: st.global
// PARTITIONS: st.global{{.*}} [[SECTION]],
// PARTITIONS-NOT: %ctaid
// PARTITIONS: ttg.warp_return
// PARTITIONS: partition1({{.*}}: i64{{.*}}) num_warps(2) {
// PARTITIONS: arith.constant 3 : i32
// PARTITIONS: } : (!tt.ptr<f32>, !tt.ptr<f32>, i64{{.*}}) -> (f32, f32)

// Every way out stores what it recorded, and the header.
// RETURNS: ^bb1:
// RETURNS-NEXT: [[END:%ps_clock_[0-9]+]] = {{.*}}%clock
// RETURNS-NEXT: st.global{{.*}} [[END]],
// RETURNS: %globaltimer
// RETURNS-NEXT: tt.return
// RETURNS: ^bb3:
// RETURNS: st.global{{.*}}
// RETURNS: %globaltimer
// RETURNS-NEXT: tt.return
// RETURNS: ^bb4:
// RETURNS: st.global{{.*}}
// RETURNS: %globaltimer
// RETURNS-NEXT: tt.return

// A payload is one more word of the row.
// PAYLOAD: scf.for %col
// PAYLOAD: [[BEFORE:%ps_clock_[0-9]+]] = {{.*}}%clock
// PAYLOAD-NEXT: %x_12 = tt.load
// PAYLOAD-NEXT: [[AFTER:%ps_clock_[0-9]+]] = {{.*}}%clock
// PAYLOAD: st.global{{.*}} [[BEFORE]], %col, [[AFTER]], %ps_zero_0,
// PAYLOAD-NOT: profscope.payload

// Ops with one predicate in one block store it once, with their clocks; those of the next block have their own.
// PREDICATED: [[RAN:%ps_ran_[0-9]+]] = arith.extui [[ON:%[a-z0-9_]+]] : i1 to i32
// PREDICATED: ttng.async_tma_copy_global_to_local {{.*}}, [[ON]] :
// PREDICATED-NOT: arith.extui [[ON]]
// PREDICATED: ttng.async_tma_copy_global_to_local {{.*}}, [[ON]] :
// PREDICATED: st.global.cs.v4.b32 {{.*}} [[RAN]],
// PREDICATED: scf.for
// PREDICATED: arith.extui {{%[a-z0-9_]+}} : i1 to i32
// PREDICATED: scf.yield
