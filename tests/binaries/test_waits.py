"""What an instruction waits for: definitions and uses, scoreboards, branches, and work that is counted."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from profscope.binaries.listing import Listing, split
from profscope.binaries.waits import control_of, waits_of


def encoded(writes: int = 7, reads: int = 7, waits: Sequence[int] = ()) -> int:
    """An encoding with nothing but control bits; see `control`."""
    return (writes << 5 | reads << 8 | sum(1 << board for board in waits) << 11) << 105


def waits(*lines: str | tuple[str, int]) -> list[list[int]]:
    """What each line waits for, by number of the line; a branch names its target's pc, 16 a line."""
    pairs = [(line, encoded()) if isinstance(line, str) else line for line in lines]
    listing = Listing(tuple(split(16 * at, text, code) for at, (text, code) in enumerate(pairs)))
    found, notes = waits_of(listing)
    assert notes == []
    return [list(each) for each in found]


def test_control_bits() -> None:
    # S2R R30, SR_TID.X and LOP3.LUT R6, R30, ... of a kernel for sm_90, as nvdisasm prints them.
    assert control_of(0x000E6E0000002100_00000000001E7919).writes == 1
    after = control_of(0x002FE200078EC0FF_000000FF1E067812)
    assert (after.writes, after.reads, after.waits) == (None, None, (1,))


def test_only_the_load_that_is_needed_of_those_on_a_scoreboard() -> None:
    assert waits(
        ("LDG.E R4, [R2.64]", encoded(writes=2)),
        ("LDG.E R5, [R2.64+0x4]", encoded(writes=2)),
        ("FADD R9, R5, R5", encoded(waits=[2])),
        "FADD R9, R4, R9",
    ) == [[], [], [1], [0, 2]]


def test_loads_that_come_back_in_order_share_the_scoreboard_of_the_last() -> None:
    assert waits(
        "LDSM.16.M88.4 R8, [R2]",
        ("LDSM.16.M88.4 R12, [R2+0x800]", encoded(writes=1)),
        ("HMMA.16816.F32 R20, R12, R8, R20", encoded(waits=[1])),
    )[2] == [0, 1]


def test_a_store_holds_its_operands() -> None:
    found = waits(
        ("STG.E [R2.64], R4", encoded(reads=0)),
        ("STG.E [R6.64], R8", encoded(reads=0)),
        ("MOV R4, RZ", encoded(waits=[0])),
    )
    assert found[2] == [0]


def test_branches_and_loops() -> None:
    assert waits(
        "MOV R0, RZ",
        "MOV R1, RZ",
        "@P0 BRA 0x40",
        "MOV R1, 0x2",
        "IADD3 R0, R0, R1, RZ",
        "@P1 BRA 0x30",
        "EXIT",
    )[4] == [0, 1, 3, 4]


def test_calls_come_back_with_what_the_function_wrote() -> None:
    found = waits(
        "MOV R0, RZ",
        "CALL.REL.NOINC 0x50",
        "MOV R1, R0",
        "EXIT",
        "NOP",
        "MOV R0, 0x1",
        "RET.REL.NODEC R2 0x0",
    )
    assert found[2] == [5]


def test_copies_in_groups() -> None:
    loop = (
        "LDGSTS.E [R4], [R2.64]", ("LDGDEPBAR", encoded(writes=0)),
        "LDGSTS.E [R4+0x100], [R2.64]", ("LDGDEPBAR", encoded(writes=0)),
        "DEPBAR.LE SB0, 0x1",
        "LDGSTS.E [R4+0x200], [R2.64]", ("LDGDEPBAR", encoded(writes=0)),
        "@P0 BRA 0x40",
        "DEPBAR.LE SB0, 0x0",
    )  # fmt: skip
    found = waits(*loop)
    assert found[4] == [0, 2, 5], "the older of two groups: of the prologue, or of an earlier iteration"
    assert found[8] == [2, 5]


def test_groups_of_wgmma() -> None:
    found = waits(
        "HGMMA.64x16x16.F32 R24, gdesc[UR4], RZ, !UPT",
        "HGMMA.64x16x16.F32 R24, gdesc[UR8], R24, gsb0",
        "HGMMA.64x16x16.F32 R32, gdesc[UR8], RZ, !UPT, gsb0",
        "WARPGROUP.DEPBAR.LE gsb0, 0x1",
        "WARPGROUP.DEPBAR.LE gsb0, 0x0",
        "FADD R0, R31, R39",
    )
    assert found[3] == [0, 1]
    assert found[4] == [2]
    assert found[5] == [1, 2]


def test_phases_of_mbarriers_where_only_copies_arrive() -> None:
    copy = "UTMALDG.2D [UR8], [UR4]"
    phase = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR6], R5"
    assert waits(copy, phase)[1] == [0]
    assert waits(copy, "UTCBAR [UR4], URZ", phase)[2] == [], "both arrive: nothing is said"


def test_phases_of_mbarriers_are_told_apart_by_where_they_are() -> None:
    code = (
        "SYNCS.EXCH.64 URZ, [UR8+0x100], UR6",
        "SYNCS.EXCH.64 URZ, [UR8+0x120], UR6",
        "SYNCS.EXCH.64 URZ, [UR8+0x140], UR6",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R5+UR14+0x120], R4",
        "SYNCS.ARRIVE.TRANS64 RZ, [R5+UR14+0x100], R3",
        "UTMALDG.2D [UR16], [UR10]",
        "SYNCS.ARRIVE.TRANS64 RZ, [R5+UR14+0x140], R3",
        "UTMALDG.2D [UR12], [UR10]",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR24+0x100], R5",
        "SYNCS.ARRIVE.TRANS64.ART0 RZ, [UR24+0x120], R5",
    )
    found = waits(*code)
    assert (found[3], found[8]) == ([9], [5]), "the other warp's arrival, and the first copy"
    both = waits(*code, "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR24+0x100], R5")
    assert 5 not in both[8], "two kinds arrive there"
    assert 9 not in waits(*code[:1], *code[2:])[2], "whose barrier is set up elsewhere"


def test_a_barrier_of_the_cta_waits_for_nothing_in_the_table() -> None:
    assert waits("MOV R0, RZ", "BAR.SYNC.DEFER_BLOCKING 0x0")[1] == []


REGISTERS = st.integers(0, 3)
GUARDS = st.sampled_from(["", "@P0 ", "@!P0 ", "@P1 "])


@st.composite
def straight_lines(draw: st.DrawFn) -> str:
    guard, a, b, c = draw(GUARDS), draw(REGISTERS), draw(REGISTERS), draw(REGISTERS)
    return guard + draw(
        st.sampled_from(
            [
                f"IADD3 R{a}, R{b}, R{c}, RZ",
                f"IMAD.WIDE R{2 * (a // 2)}, R{b}, 0x4, R{2 * (c // 2)}",
                f"LDS.64 R{2 * (a // 2)}, [R{b}]",
                f"STS.64 [R{a}], R{2 * (b // 2)}",
                f"ISETP.GE.AND P{a % 2}, PT, R{b}, R{c}, P{c % 2}",
                f"SEL R{a}, R{b}, R{c}, !P{a % 2}",
                f"IADD3 R{a}, P{b % 2}, R{b}, R{c}, RZ",
            ]
        )
    )


def pair(number: int) -> set[str]:
    return {f"R{number}", f"R{number + 1}"}


def model(text: str) -> tuple[set[str], set[str]]:
    """What a line writes and reads, said once more for the seven forms above."""
    opcode, _, rest = text.partition(" ")
    operands = [part.strip(" []!") for part in rest.split(",")]
    first = int(operands[0][1:])
    if opcode == "IADD3" and operands[1].startswith("P"):
        return {operands[0], operands[1]}, set(operands[2:4])
    if opcode == "IADD3":
        return {operands[0]}, set(operands[1:3])
    if opcode == "IMAD.WIDE":
        return pair(first), {operands[1]} | pair(int(operands[3][1:]))
    if opcode == "LDS.64":
        return pair(first), {operands[1]}
    if opcode == "STS.64":
        return set(), {operands[0]} | pair(int(operands[1][1:]))
    if opcode == "SEL":
        return {operands[0]}, set(operands[1:])
    return {operands[0]}, {*operands[2:4], operands[4]}


def brute_force(lines: Sequence[str]) -> list[list[int]]:
    """Run the lines for every way that the guards can fall, and note who really wrote what is read."""
    written: list[set[int]] = [set() for _ in lines]
    guards = [line.split()[0].lstrip("@") if line.startswith("@") else "" for line in lines]

    def run(at: int, last: dict[str, int], known: dict[str, bool]) -> None:
        if at == len(lines):
            return
        text, guard = lines[at].removeprefix(f"@{guards[at]} "), guards[at]
        predicate = guard.lstrip("!")
        for value in (True, False) if predicate and predicate not in known else (known.get(predicate, True),):
            runs = not guard or value != guard.startswith("!")
            now = known | ({predicate: value} if predicate else {})
            if not runs:
                run(at + 1, last, now)
                continue
            writes, reads = model(text)
            written[at] |= {last[name] for name in reads | ({predicate} - {""}) if name in last}
            run(
                at + 1,
                last | dict.fromkeys(writes, at),
                {name: truth for name, truth in now.items() if name not in writes},
            )

    run(0, {}, {})
    return [sorted(each) for each in written]


@given(st.lists(straight_lines(), min_size=1, max_size=9))
def test_nobody_who_wrote_what_is_read_is_missing(lines: list[str]) -> None:
    """Against a model that follows every way the guards can fall."""
    for found, real in zip(waits(*lines), brute_force(lines), strict=True):
        assert set(real) <= set(found)


@given(
    st.lists(
        straight_lines().map(lambda line: line.split("P0 ")[-1].split("P1 ")[-1].lstrip("@!")), max_size=12
    )
)
def test_without_guards_nobody_else_is_named(lines: list[str]) -> None:
    assert waits(*lines) == brute_force(lines) if lines else True
