// RUN: profscope opt %S/inputs/nested_loops.ttgir -p loop-spans,iteration-spans | FileCheck %s --check-prefix=FOR
// RUN: profscope opt %S/inputs/while.ttgir -p loop-spans,iteration-spans | FileCheck %s --check-prefix=WHILE

// An iteration has no end: it lasts until the next one begins.
// FOR: scf.for %row
// FOR-NEXT: "profscope.begin"() {id = 3 : i32, kind = "iteration", name = "iteration L49", op = "scf.for"}
// FOR: scf.for %col
// FOR-NEXT: "profscope.begin"() {id = 4 : i32, kind = "iteration", name = "iteration L51", op = "scf.for"}
// FOR: scf.for %other
// FOR-NEXT: "profscope.begin"() {id = 5 : i32, kind = "iteration", name = "iteration L54", op = "scf.for"}
// FOR-NOT: "profscope.end"() {id = {{[345]}} :

// The condition runs once more than the body, so an iteration starts in the body.
// WHILE: scf.while
// WHILE-NOT: profscope
// WHILE: ^bb0(%value_1: i32, %steps_2: i32):
// WHILE-NEXT: "profscope.begin"() {id = 1 : i32, kind = "iteration", name = "iteration L39", op = "scf.while"}
