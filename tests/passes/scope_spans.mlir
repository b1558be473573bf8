// A pipelined matmul with scopes, a mark and payloads; and modules without any stay as they are.
// RUN: profscope opt %S/inputs/scopes.ttgir -p kernel-span,scope-spans,loop-spans | FileCheck %s --check-prefix=SCOPES
// RUN: profscope opt %S/inputs/scopes.ttgir -p scope-spans,lower-records,allocate-buffer | FileCheck %s --check-prefix=LOWERED
// RUN: profscope opt %S/inputs/nested_loops.ttgir -p scope-spans | FileCheck %s --check-prefix=NONE

// The line of a span is the one where its scope is entered. Constants before a scope's first op stay outside.
// SCOPES: name = "matmul_scopes_kernel"
// SCOPES: arith.constant true
// SCOPES-NEXT: "profscope.begin"() {id = 1 : i32, kind = "scope", name = "setup", op = "scope"} : () -> () loc("/kernels/scopes.py":36:0)
// SCOPES-NEXT: "profscope.payload"(%0) {id = 1 : i32, name = "program"} : (i32) -> ()
// SCOPES: %cols{{.*}} = arith.addi
// SCOPES-NEXT: "profscope.end"() {id = 1 : i32}
// The prologue of the pipeline is the first part of a scope in the loop, and the loop is inside the scope around it.
// SCOPES: name = "main loop"
// SCOPES-NEXT: {id = [[FIRST:[0-9]+]] : i32, kind = "scope", name = "fetch [1/3]"
// SCOPES: ttg.async_copy_global_to_local
// SCOPES: ttg.async_copy_global_to_local
// SCOPES: ttg.async_commit_group
// SCOPES: "profscope.end"() {id = [[FIRST]] : i32}
// SCOPES-NEXT: kind = "loop"
// SCOPES-NEXT: scf.for [[K:%[a-z0-9_]+]] =
// SCOPES: {id = [[SECOND:[0-9]+]] : i32, kind = "scope", name = "fetch [2/3]"
// SCOPES-NEXT: "profscope.payload"([[K]]) {id = [[SECOND]] : i32, name = "k"}
// SCOPES-NEXT: ttg.async_wait
// SCOPES: ttg.local_load
// SCOPES: ttg.local_load
// SCOPES-NEXT: "profscope.end"() {id = [[SECOND]] : i32}
// SCOPES-NEXT: {id = [[MARK:[0-9]+]] : i32, kind = "mark", name = "fetched"
// SCOPES-NEXT: "profscope.end"() {id = [[MARK]] : i32}
// SCOPES-NEXT: {id = [[DOT:[0-9]+]] : i32, kind = "scope", name = "multiply"
// SCOPES-NEXT: tt.dot
// SCOPES-NEXT: "profscope.end"() {id = [[DOT]] : i32}
// SCOPES: name = "fetch [3/3]"
// SCOPES: ttg.async_copy_global_to_local
// SCOPES: profscope.end
// SCOPES-NEXT: scf.yield
// A function inlined twice has its scope twice, each in the scope of its call.
// SCOPES: {id = [[EPILOGUE:[0-9]+]] : i32, kind = "scope", name = "epilogue"
// SCOPES-NEXT: "profscope.payload"(%{{.*}}) {id = [[EPILOGUE]] : i32, name = "gain"} : (f32)
// SCOPES-NEXT: name = "scale", op = "scope"} : () -> () loc(callsite("/kernels/scopes.py":27:0 at "/kernels/scopes.py":51:0))
// SCOPES: name = "scale", op = "scope"} : () -> () loc(callsite("/kernels/scopes.py":27:0 at "/kernels/scopes.py":52:0))
// SCOPES: tt.store
// SCOPES-NEXT: "profscope.end"() {id = [[EPILOGUE]] : i32}
// SCOPES-NOT: llvm.intr.assume
// SCOPES-NOT: // profscope

// LOWERED: profscope.manifest = {{.*}}fetch [1/3]
// LOWERED-NOT: "profscope.

// NONE-NOT: profscope
