"""Inserting, replacing and erasing: Triton accepts the result, and nothing else changes."""

from __future__ import annotations

import difflib

import pytest

from profscope.instrument_passes.errors import IRError
from profscope.instrument_passes.ir import Module, Op, parse
from tests.support.corpus import printed, third_of_modules, triton_module


def _inserted(before: str, after: str) -> list[str]:
    """The lines of `after` that are not lines of `before`, all of which must be there still, in order."""
    remaining = iter(before.splitlines())
    expected = next(remaining, None)
    inserted = []
    for line in after.splitlines():
        if line == expected:
            expected = next(remaining, None)
        else:
            inserted.append(line)
    assert expected is None
    return inserted


def _changes(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines removed and lines added."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    removed: list[str] = []
    added: list[str] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            removed += matcher.a[i1:i2]
            added += matcher.b[j1:j2]
    return removed, added


@third_of_modules(0)
def test_op_in_front_of_every_load_and_store(text: str, module: Module, target: str) -> None:
    sites = [op for op in module.walk() if op.name in ("tt.load", "tt.store", "tt.atomic_rmw", "tt.dot")]
    expected = []
    for site in sites:
        name = module.fresh("site")
        (new,) = site.insert_before(f"{name} = arith.constant 1 : i32")
        assert new.loc == site.loc
        assert new.line == site.line
        assert new.results[0].type == "i32"
        assert site.resolve(name) == new.results[0]
        expected.append(f"{site.parent.indent}{name} = arith.constant 1 : i32 {site.loc_text}")
    assert _inserted(text, str(module)) == expected
    assert str(parse(str(module))) == str(module)
    triton_module(str(module), target)


@third_of_modules(2)
def test_first_and_last_op_of_every_block(text: str, module: Module, target: str) -> None:
    for region in [region for op in module.walk() for region in op.regions]:
        if region.parent.name in ("tt.reduce", "tt.scan"):  # their regions take arithmetic only
            continue
        for block in region.blocks:
            first, last = module.fresh(), module.fresh()
            block.prepend(f"{first} = arith.constant 1 : i32", loc="loc(unknown)")
            (new,) = block.append_before_terminator(f"{last} = arith.addi {first}, {first} : i32")
            assert block.ops[0].results[0].name == first
            assert block.ops[-2:] == [new, block.terminator] if block.terminator else block.ops[-1] is new
            assert new.operand_types == ["i32", "i32"]
    assert _inserted(text, str(module))
    assert str(parse(str(module))) == str(module)
    triton_module(str(module), target)


@third_of_modules(0)
def test_manifest_changes_the_module_line_only(text: str, module: Module, target: str) -> None:
    manifest = r'"{\22sites\22: [\22a } > b\22], \22\\\22: 1}"'
    module.set_attr("profscope.manifest", '"first"')
    module.set_attr("profscope.manifest", manifest)
    module.set_attr("profscope.other-name", "unit")
    assert module.attr("profscope.manifest") == manifest
    assert module.attr("profscope.other-name") == "unit"
    pairs = zip(text.splitlines(), str(module).splitlines(), strict=True)
    ((before, after),) = [pair for pair in pairs if pair[0] != pair[1]]
    assert after.startswith(before.removesuffix("} {"))
    read = parse(str(module))
    assert read.attr("profscope.manifest") == manifest
    assert read.attr("ttg.num-warps") == parse(text).attr("ttg.num-warps")
    again = parse(str(triton_module(str(module), target)))
    assert again.attr("profscope.manifest") is not None
    assert again.attr("profscope.other-name") == "unit"


def _only(module: Module, name: str) -> Op:
    (op,) = [op for op in module.walk() if op.name == name]
    return op


def test_attribute_of_a_module_without_attributes() -> None:
    module = parse("module {\n} loc(unknown)\n")
    assert module.attr("a.b") is None
    module.set_attr("a.b", "1 : i32")
    assert str(module) == "module attributes {a.b = 1 : i32} {\n} loc(unknown)\n"
    module.set_attr("a.c-d", "unit")
    assert str(module) == 'module attributes {a.b = 1 : i32, "a.c-d"} {\n} loc(unknown)\n'
    module.set_attr("a.b", '"x"')
    assert str(module) == 'module attributes {a.b = "x", "a.c-d"} {\n} loc(unknown)\n'


def test_erase_takes_the_line_out() -> None:
    text = printed("add", "cuda:80")
    module = parse(text)
    store = _only(module, "tt.store")
    line = text.splitlines()[store.line - 1]
    store.erase()
    assert _changes(text, str(module)) == ([line], [])
    assert store not in list(module.walk())
    triton_module(str(module), "cuda:80")


def test_replace_header_keeps_the_location() -> None:
    text = printed("add", "cuda:80")
    module = parse(text)
    add = _only(module, "arith.addf")
    loc = add.loc
    add.replace_header(add.text.replace("arith.addf", "arith.mulf").removesuffix(add.loc_text))
    assert (add.name, add.loc) == ("arith.mulf", loc)
    assert [line.count("arith.mulf") for line in _changes(text, str(module))[1]] == [1]
    triton_module(str(module), "cuda:80")


def test_replace_header_keeps_the_body() -> None:
    module = parse(printed("softmax", "cuda:80"))
    loop = _only(module, "scf.for")
    body = str(loop.regions[0])
    loop.replace_header(str(loop.parts[0]).replace("scf.for ", "scf.for  "))
    assert str(loop.regions[0]) == body
    assert "scf.for  %" in str(module)
    triton_module(str(module), "cuda:80")


@pytest.mark.parametrize("text", ["", "%0 = a.b\n%1 = c.d", "%0 ="])
def test_replace_header_wants_one_op(text: str) -> None:
    module = parse("module {\n  %0 = a.b : i32\n}\n", "m.ttgir")
    with pytest.raises(IRError, match=r"^m.ttgir:2: .*expected .*op"):
        next(module.walk()).replace_header(text)
    assert str(module) == "module {\n  %0 = a.b : i32\n}\n"


def test_fresh_names_are_used_nowhere() -> None:
    module = parse('module {\n  %ps_0:2 = a.b {x = "%ps_1"} loc("%ps_2")\n  a.c %ps_0#1 // %ps_3\n}\n')
    assert module.fresh() == "%ps_4"
    next(module.walk()).insert_after("%ps_5 = a.b")
    assert [module.fresh(), module.fresh(), module.fresh("x")] == ["%ps_6", "%ps_7", "%x_0"]


def test_inserted_text_is_indented_as_its_block() -> None:
    module = parse("module {\n  a.b {\n    a.c\n  }\n}\n")
    inner = list(module.walk())[1]
    inner.insert_before("x.if {\n  x.y\n}")
    assert str(module) == "module {\n  a.b {\n    x.if {\n      x.y\n    }\n    a.c\n  }\n}\n"


def test_comments_stay_with_their_line() -> None:
    module = parse("module {\n  f.f {\n  ^bb1:  // pred: ^bb0\n    a.b // one\n    a.c\n  }\n}\n")
    for op in list(module.walk()):
        if op.name == "a.b":
            op.insert_before("x.before")
            op.insert_after("x.after")
    assert str(module) == (
        "module {\n  f.f {\n  ^bb1:  // pred: ^bb0\n"
        "    x.before\n    a.b // one\n    x.after\n    a.c\n  }\n}\n"
    )


def test_ops_may_be_inserted_and_erased_during_a_walk() -> None:
    module = parse("module {\n  a.a\n  a.b\n  a.c\n}\n")
    seen = []
    for op in module.walk():
        seen.append(op.name)
        if op.name == "a.a":
            op.insert_after("x.x")
            module.body.ops[2].erase()
    assert seen == ["a.a", "a.c"]
    assert str(module) == "module {\n  a.a\n  x.x\n  a.c\n}\n"


def test_what_is_erased_has_no_place() -> None:
    module = parse("module {\n  a.a\n}\n", "m.ttgir")
    op = module.body.ops[0]
    op.erase()
    with pytest.raises(IRError, match=r":2: the op is not in a block: a\.a"):
        op.insert_before("a.b")
