// RUN: profscope opt %S/inputs/nested_loops.ttgir -p loop-spans | FileCheck %s --check-prefix=FOR
// RUN: profscope opt %S/inputs/while.ttgir -p loop-spans | FileCheck %s --check-prefix=WHILE
// RUN: profscope opt %S/inputs/gluon_ws.ttgir -p loop-spans | FileCheck %s --check-prefix=PARTITIONS

// FOR: "profscope.begin"() {id = 0 : i32, kind = "loop", name = "loop L49", op = "scf.for"} : () -> () loc([[OUTER:#loc[0-9]+]])
// FOR-NEXT: scf.for %row
// FOR: "profscope.begin"() {id = 1 : i32, kind = "loop", name = "loop L51", op = "scf.for"}
// FOR-NEXT: scf.for %col
// FOR-NOT: profscope
// FOR: } loc(
// FOR-NEXT: "profscope.end"() {id = 1 : i32}
// FOR-NEXT: "profscope.begin"() {id = 2 : i32, kind = "loop", name = "loop L54", op = "scf.for"}
// FOR-NEXT: scf.for %other
// FOR: "profscope.end"() {id = 2 : i32}
// FOR: scf.yield %total_4
// FOR-NEXT: } loc([[OUTER]])
// FOR-NEXT: "profscope.end"() {id = 0 : i32} : () -> () loc([[OUTER]])
// FOR-NOT: profscope

// Nothing goes into either region of a while loop.
// WHILE: "profscope.begin"() {id = 0 : i32, kind = "loop", name = "loop L39", op = "scf.while"}
// WHILE-NEXT: scf.while
// WHILE-NOT: profscope
// WHILE: } loc(
// WHILE-NEXT: "profscope.end"() {id = 0 : i32}

// PARTITIONS: partition0
// PARTITIONS: "profscope.begin"() {id = 0 : i32, kind = "loop", name = "loop L27", op = "scf.for"}
// PARTITIONS: "profscope.end"() {id = 0 : i32}
// PARTITIONS-NEXT: ttg.warp_return
// PARTITIONS: partition1
// PARTITIONS: "profscope.begin"() {id = 1 : i32, kind = "loop", name = "loop L27", op = "scf.for"}
// PARTITIONS: "profscope.end"() {id = 1 : i32}
// PARTITIONS-NEXT: ttg.warp_return
