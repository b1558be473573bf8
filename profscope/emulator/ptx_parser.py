"""Reading PTX text into plain data: globals, functions, and their instructions with source lines.

The subset is what LLVM's NVPTX backend and Triton's inline assembly print: one statement may span lines or
share one, `{ ... }` opens a scope with registers of its own, `.loc` lines give the source position of the
next instructions. Registers, labels and parameters of inner scopes come out renamed, so names are unique per
function.
"""

import re
from itertools import islice, pairwise

from profscope.emulator.ptx_syntax import (
    Address,
    Function,
    GlobalVariable,
    Instruction,
    Module,
    Operand,
    Parameter,
    Register,
    SourceLine,
    Symbol,
    Token,
    Vector,
    immediate,
    negative,
    tokens,
    unquoted,
)
from profscope.errors import EmulatorError

__all__ = ["parse", "with_one_place"]

TYPE_BYTES = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4,
    "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8,
}  # fmt: skip

Scope = dict[str, Register | Symbol]

_ASSEMBLY = re.compile(r"// begin inline asm.*?// end inline asm", re.DOTALL)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE | re.DOTALL)


def parse(text: str) -> Module:
    """The module in `text`. Raises EmulatorError with the PTX line that cannot be read."""
    files = {int(number): unquoted(name) for number, name in _FILE.findall(text)}
    for name in files.values():
        last = name.rpartition("/")[2]  # as LLVM repeats it in comments after each .loc, line breaks and all
        text = text.replace(last, " ".join(last.splitlines())) if len(last.splitlines()) > 1 else text
    code = re.split(r"^\s*\.section\b", with_one_place(text), maxsplit=1, flags=re.MULTILINE)[0]
    return _Parser(list(tokens(code)), files).module()


def with_one_place(text: str) -> str:
    """PTX without the `.loc`s in each inline assembly but the first: from Triton 3.8 on, LLVM numbers the
    lines of an assembly as if they were lines of the source. Lines stay where they are."""

    def first_alone(assembly: re.Match[str]) -> str:
        head, first, rest = re.split(r"(\n[ \t]*\.loc[^\n]*|$)", assembly[0], maxsplit=1)
        return head + first + re.sub(r"\n[ \t]*\.loc[^\n]*", "\n", rest)

    return _ASSEMBLY.sub(first_alone, text)


class _Parser:
    def __init__(self, tokens: list[Token], files: dict[int, str]) -> None:
        self.tokens = tokens
        self.files = files
        self.at = 0
        self.instructions = 0

    # --- tokens ---

    def peek(self) -> Token:
        while self.at < len(self.tokens) and self.tokens[self.at].kind == "newline":
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else Token("end", "", 0)

    def next(self) -> Token:
        token = self.peek()
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        if self.peek().text != text:
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> Token:
        token = self.next()
        if token.text != text:
            raise EmulatorError(f"PTX line {token.line}: {text!r} expected, found {token.text!r}")
        return token

    def rest_of_line(self) -> list[Token]:
        start = self.at
        while self.at < len(self.tokens) and self.tokens[self.at].kind != "newline":
            self.at += 1
        return self.tokens[start : self.at]

    # --- module level ---

    def module(self) -> Module:
        module = Module()
        while self.peek().kind != "end":
            token = self.next()
            if token.text in (".version", ".target", ".address_size", ".file"):
                self.rest_of_line()
            elif token.text in (".visible", ".extern", ".weak"):
                continue
            elif token.text in (".entry", ".func"):
                function = self.function(token.text == ".entry")
                if function is not None:
                    module.functions[function.name] = function
            elif token.text in (".global", ".shared", ".const"):
                variable = self.variable(token.text[1:])
                module.variables[variable.name] = variable
            else:
                raise EmulatorError(f"PTX line {token.line}: unknown directive {token.text!r}")
        return module

    def variable(self, space: str) -> GlobalVariable:
        """After `.global`: `.align 4 .b8 name[24] = {1, 2, ...};`"""
        while self.peek().text.startswith("."):
            word = self.next().text
            if word == ".align":
                self.next()
        element_bytes = TYPE_BYTES[word[1:]]
        name = self.next().text
        count = 1
        is_sized = True
        if self.accept("["):
            is_sized = self.peek().text != "]"
            count = int(self.next().text) if is_sized else 0
            if is_sized:
                self.expect("]")
            else:
                self.next()
        values: list[int] = []
        if self.accept("="):
            if self.accept("{"):
                while not self.accept("}"):
                    values.append(self.integer())
                    self.accept(",")
            else:
                values.append(self.integer())
        self.expect(";")
        data = b"".join((v % (1 << 8 * element_bytes)).to_bytes(element_bytes, "little") for v in values)
        size = element_bytes * count
        return GlobalVariable(name, space, data.ljust(size, b"\0") if is_sized else None, size)

    def integer(self) -> int:
        is_negative = self.accept("-")
        number = immediate(self.next())
        return (negative(number) if is_negative else number).bits

    def function(self, is_entry: bool) -> Function | None:
        """After `.entry` or `.func`; None for a mere declaration."""
        results = [p.name for p in self.parameters()] if self.peek().text == "(" else []
        function = Function(self.next().text, is_entry, self.parameters(), results)
        while self.peek().text not in ("{", ";"):
            if self.next().text == ".reqntid":
                function.threads = int(self.next().text)
                while self.accept(","):
                    function.threads *= int(self.next().text)
        if self.accept(";"):
            return None
        self.body(function)
        return function

    def parameters(self) -> list[Parameter]:
        """`(.param .u64 .ptr .global .align 1 name, ...)`"""
        parameters: list[Parameter] = []
        if not self.accept("("):
            return parameters
        while not self.accept(")"):
            words = []
            while self.peek().text not in (",", ")"):
                words.append(self.next().text)
            self.accept(",")
            kinds = [w[1:] for w in words if w.startswith(".") and w[1:] in TYPE_BYTES]
            names = [w for w in words if w[0] not in ".[]0123456789"]
            parameters.append(Parameter(names[-1], kinds[0], ".ptr" in words))
        return parameters

    # --- function bodies ---

    def body(self, function: Function) -> None:
        source: SourceLine | None = None
        scopes: list[Scope] = [{}]
        scope_count = 0
        self.expect("{")
        while True:
            token = self.next()
            if token.text == "{":
                scope_count += 1
                scopes.append(self.labels(scope_count))
            elif token.text == "}":
                scopes.pop()
                if not scopes:
                    return
            elif token.text == ".loc":
                source = self.location() or source
            elif token.text == ".reg":
                self.registers(function, scopes[-1], scope_count if len(scopes) > 1 else 0)
            elif token.text in (".param", ".local", ".shared"):
                self.declaration(function, token.text, scopes[-1], scope_count)
            elif token.text == ".branchtargets":
                self.branch_targets(function, scopes, token)
            elif token.text == ".pragma":
                while self.next().text != ";":
                    pass
            elif token.text == ";":
                continue
            elif token.kind == "word" and self.peek().text == ":":
                self.next()
                label = scopes[-1].get(token.text)
                function.body.append(label if isinstance(label, Symbol) else Symbol(token.text))
            elif token.kind in ("word", "punctuation"):
                self.at -= 1
                function.body.append(self.instruction(scopes, source))
            else:
                raise EmulatorError(
                    f"PTX line {token.line}: {token.text!r} where an instruction should start"
                )

    def branch_targets(self, function: Function, scopes: list[Scope], where: Token) -> None:
        """`list: .branchtargets a, b;` after its label, which stands at the end of the body."""
        label = function.body[-1] if function.body else None
        if not isinstance(label, Symbol):
            raise EmulatorError(f"PTX line {where.line}: .branchtargets without a label")
        targets = []
        while not self.accept(";"):
            targets.append(self.operand(scopes))
            self.accept(",")
        function.branch_targets[label.name] = tuple(targets)

    def labels(self, scope_number: int) -> Scope:
        """The labels of the inner scope that begins here, which may be branched to before they stand."""
        depth, labels = 0, Scope()
        for token, after in pairwise(islice(self.tokens, self.at, None)):
            depth += (token.text == "{") - (token.text == "}")
            if depth < 0:
                break
            if depth == 0 and token.kind == "word" and after.text == ":":
                labels[token.text] = Symbol(f"{token.text}.{scope_number}")
        return labels

    def location(self) -> SourceLine | None:
        """`1 18 16, function_name ..., inlined_at 1 20 5`: the innermost position; line 0 means none."""
        words = self.rest_of_line()
        number, line = int(words[0].text), int(words[1].text)
        return SourceLine(self.files.get(number, "?"), line) if line else None

    def registers(self, function: Function, scope: Scope, scope_number: int) -> None:
        kind = self.next().text[1:]
        while True:
            name = self.next().text
            count = 0
            if self.accept("<"):
                count = int(self.next().text)
                self.expect(">")
            for one in [f"{name}{i}" for i in range(count)] if count else [name]:
                unique = f"{one}.{scope_number}" if scope_number else one
                scope[one] = Register(unique)
                function.registers[unique] = kind
            if self.accept(";"):
                return
            self.expect(",")

    def declaration(self, function: Function, space: str, scope: Scope, scope_number: int) -> None:
        while self.peek().text.startswith("."):
            word = self.next().text
            if word == ".align":
                self.next()
        name = self.next().text
        count = 1
        if self.accept("["):
            count = int(self.next().text)
            self.expect("]")
        self.expect(";")
        if space == ".param":
            scope[name] = Symbol(f"{name}.{scope_number}")
        else:
            function.locals[name] = count * TYPE_BYTES[word[1:]]

    def instruction(self, scopes: list[Scope], source: SourceLine | None) -> Instruction:
        predicate = None
        line = self.peek().line
        if self.accept("@"):
            negated = self.accept("!")
            predicate = (Register(_lookup(self.next().text, scopes).name), negated)
        opcode = self.next().text
        operands: list[Operand] = []
        while not self.accept(";"):
            operands.append(self.operand(scopes))
            while self.accept("|"):
                second = self.operand(scopes)
                operands[-1] = Vector((operands[-1], second))
            if self.peek().text != ";":
                self.expect(",")
        self.instructions += 1
        return Instruction(opcode, tuple(operands), predicate, line, source, self.instructions - 1)

    def operand(self, scopes: list[Scope]) -> Operand:
        token = self.next()
        if token.text in ("{", "("):
            items = []
            close = "}" if token.text == "{" else ")"
            while not self.accept(close):
                items.append(self.operand(scopes))
                self.accept(",")
            return Vector(tuple(items))
        if token.text == "[":
            base = self.operand(scopes)
            offset = 0
            while not self.accept("]"):
                sign = -1 if self.next().text == "-" else 1
                offset += sign * self.integer()
            if isinstance(base, Vector | Address):
                raise EmulatorError(f"PTX line {token.line}: unreadable address")
            return Address(base, offset)
        if token.text == "-":
            return negative(immediate(self.next()))
        if token.text == "!":
            raise EmulatorError(f"PTX line {token.line}: negated predicate operands are not supported")
        if token.kind == "number":
            return immediate(token)
        if token.kind != "word":
            raise EmulatorError(f"PTX line {token.line}: operand expected, found {token.text!r}")
        return _lookup(token.text, scopes)


def _lookup(name: str, scopes: list[Scope]) -> Register | Symbol:
    """What `name` means in the innermost of `scopes` that declares it."""
    for scope in reversed(scopes):
        if name in scope:
            return scope[name]
    return Register(name) if name.startswith("%") or name == "_" else Symbol(name)
