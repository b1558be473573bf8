"""Every statement of real kernels in a scope of its own: results keep their bits, no scope is lost unsaid."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

import profscope
from profscope import emulator
from tests.kernels import attention, cases, control_flow, matmul
from tests.support.quick import quick
from tests.support.sessions import same_bits
from tests.support.validation import validate

CASES = {case.name: case for case in cases.cases("small")}
MODULES = {
    "matmul": matmul,
    "attention": attention,
    "early_return": control_flow,
    "while": control_flow,
    "nested_loops": control_flow,
    "branch_in_loop": control_flow,
    "call_paths": control_flow,
    "joined_paths": control_flow,
}

NOTE = (
    r"\w+: (scope|mark|payload) '(?P<name>[\w ]+)' \(.*\.py:\d+\) "
    r"has no spans(?P<instances> in .* instances)?: .*"
)


class Wrap(ast.NodeTransformer):
    """Puts `with psl.scope("s<number>"):` around each statement of a kernel that may stand there.

    Scopes directly in a loop carry its variable, and a mark stands before each of them.
    """

    def __init__(self) -> None:
        self.names: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if any("jit" in ast.unparse(decorator) for decorator in node.decorator_list):
            node.body = self._wrapped(node.body, "")
        return node

    def _wrapped(self, body: list[ast.stmt], variable: str) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            loops = isinstance(statement, ast.For) and "range(" in ast.unparse(statement.iter)
            inner = ast.unparse(statement.target) if loops and isinstance(statement, ast.For) else ""
            for field in ("body", "orelse"):
                if getattr(statement, field, None):
                    setattr(statement, field, self._wrapped(getattr(statement, field), inner))
            if self._bare(statement):
                out.append(statement)
                continue
            name = f"s{len(self.names)}"
            self.names.append(name)
            carried = f", {name}={variable}" if variable else ""
            marked = f"psl.mark('at {name}')\n" if variable else ""
            text = f"{marked}with psl.scope('{name}'{carried}):\n    pass"
            statements = ast.parse(text).body
            around = statements[-1]
            assert isinstance(around, ast.With)
            around.body = [statement]
            out += statements
        return out

    @staticmethod
    def _bare(statement: ast.stmt) -> bool:
        """Triton takes no returns in a with statement, and a constexpr is no statement at run time."""
        returns = any(isinstance(node, ast.Return) for node in ast.walk(statement))
        return returns or isinstance(statement, ast.AnnAssign | ast.Pass)


@pytest.mark.parametrize("name", quick(MODULES, MODULES.keys() - {"attention", "matmul", "branch_in_loop"}))
def test_every_statement(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, module = CASES[name], MODULES[name]
    assert module.__file__ is not None
    inputs = case.inputs("cpu")
    with emulator.activate():
        bare = case.launch(inputs)
    wrap = Wrap()
    tree = wrap.visit(ast.parse(Path(module.__file__).read_text()))
    path = tmp_path / f"{name}.py"
    future, rest = ast.unparse(tree).split("from __future__ import annotations")
    path.write_text(f"{future}from __future__ import annotations\nimport profscope.language as psl{rest}")
    scoped = runpy.run_path(str(path))
    for kernel in (k for k in vars(cases) if k.endswith("_kernel") and k in scoped):
        monkeypatch.setattr(cases, kernel, scoped[kernel])
    with profscope.session(backend="emulator", instrument="heavy") as prof:
        outputs = case.launch(inputs)
    assert same_bits(bare, outputs)
    profile = prof.profile
    assert validate(profile.tables) == []
    spans = profile.df[profile.df["kind"] == "scope"]
    shown = {re.sub(r" \[.*", "", name) for name in spans["scope"].unique()}
    notes = [re.fullmatch(NOTE, note) for note in profile.metadata["notes"]]
    gone = {note["name"] for note in notes if note is not None and not note["instances"]}
    assert [said for said, note in zip(profile.metadata["notes"], notes, strict=True) if note is None] == []
    assert len(shown) > 3
    assert not shown & gone
    if name in ("matmul", "attention"):  # all of the file runs
        assert shown | gone == set(wrap.names)
