"""Text of one kernel: a value is written to memory, and the values it reads are computed on the way.

Without reductions a thread takes elements one after another. With reductions the result is a table of rows,
one for each index that all reductions keep. `blockDim.x` threads share a row, and a block has `blockDim.y`
rows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from agent.compose.body import C_TYPES, STATES, STORED
from agent.compose.dims import Dim, Index, Radix, times
from agent.compose.expressions import Sizes
from agent.compose.loops import Atom, Loops
from agent.compose.neighbours import Neighbours
from agent.compose.parameters import Parameters
from agent.compose.schedules import Schedule
from agent.compose.values import Apart, Buffer, Reduction, RowsOf, Scan, Scatter, Value


class Memory(NamedTuple):
    """Buffers of the values in memory, reductions over pieces' results for long ones, and known sizes."""

    buffer_of: Callable[[Value], Buffer | None]
    in_pieces: dict[Reduction, Reduction]
    sizes: Sizes


class Kernel(Parameters):
    """Writer of one kernel. `splits` says how loop variables are divided.

    `rows`: loop variables that number the rows, or None while no reduction is known. `known`: an earlier pass
    over the same kernel. With it this pass leaves out loop variables that nothing reads, and may take
    elements by `V`.
    """

    def __init__(
        self, name: str, points: int, memory: Memory, splits: dict[str, Dim], rows: frozenset[str] | None,
        known: "Kernel | None" = None,
    ) -> None:  # fmt: skip
        super().__init__(points, known)
        self.name, self._rows = name, rows
        self._buffer_of, self._in_pieces, self.known_sizes = memory
        self.schedule: Schedule = known.schedule if known else Schedule()
        self.reductions: list[Reduction] = []
        self.goes_over: Reduction | Scan | None = None
        """Reduction or scan that defines a row of this kernel. None if the kernel takes elements alone."""
        self.abouts: list[str] = []
        read = known.body.read if known else None
        self._loops = Loops(self.body, (self.divisor, self.product), splits, read)
        self.radix = Radix(points, (self.size, self.divisor), self.product, self._loops.is_whole)
        self.is_wide = False
        """True if a thread takes `V` neighbours at once. The sizes of `last` then have to be multiples of
        it."""
        self._neighbours: Neighbours | None = None
        self._branching: set[str] = set(known._branching) if known else set()
        """Loops whose elements are computed under conditions or in loops of their own."""
        self.has_plain_loops = False
        self._is_strided = False

    def write(self, target: Value, out: Buffer, wide: bool = False) -> None:
        """Write the whole body. Raises Split, RowsOf or Apart if writing has to begin anew."""
        self.is_wide = wide
        for size in dict.fromkeys(self.last):
            self._multiple(size)
        self._write(target, out)
        self._multiples = {}  # the host functions do not have these variables

    def _write(self, target: Value, out: Buffer) -> None:
        atoms, index = self._loops.atoms("i", target.shape)
        rows = [atom for atom in atoms if self._rows and atom[0] in self._rows]
        inner = [atom for atom in atoms if atom not in rows]
        self._is_strided = bool(rows and inner) and atoms[-1] in rows
        place = self.pointer(out)
        if self._rows is None:
            self._go_through(atoms, (target, index, place))
            return
        self._begin_row(rows)
        if inner:
            self._go_through(inner, (target, index, place), "(live ? {0} : 0)")
            return
        value = self.at(target, index)
        self.body.say(f"if (live && threadIdx.x == 0) {place}[{self._linear(index)}] = {value};")

    def write_scatter(self, scatter: Scatter, out: Buffer) -> None:
        """Write the body that puts each element of the source into its place. Raises Split."""
        atoms, index = self._loops.atoms("i", scatter.source.shape)
        place, c_type = self.pointer(out), C_TYPES[scatter.dtype]
        with self._steps("at", atoms, "{0}"):
            value = self.at(scatter.source, index)
            at = f"{place}[{self._linear(scatter.place(self, index))}]"
            if not scatter.is_added:
                self.body.say(f"{at} = {value};")
            elif scatter.dtype == "int64":
                word = "unsigned long long"
                self.body.say(f"atomicAdd(reinterpret_cast<{word}*>(&{at}), static_cast<{word}>({value}));")
            else:
                self.body.say(f"atomicAdd(&{at}, {c_type}({value}));")

    def write_scan(self, scan: Scan, out: Buffer, wide: bool = False) -> None:
        """Write the body of a scan, tile by tile of a row. Raises Split or Apart."""
        self.is_wide = wide
        atoms, index = self._loops.atoms("i", scan.shape)
        [axis] = scan.over
        own = {digit.text for digit in index[axis]}
        along = [atom for atom in atoms if atom[0] in own]
        self.goes_over, place = scan, self.pointer(out)
        kind, c_type, count = scan.kind.capitalize(), C_TYPES[scan.dtype], self.size(scan.shape[axis])
        if wide:
            count = self._multiple(scan.shape[axis])
        else:
            self.body.say("constexpr int V = 1;")
        self._begin_row([atom for atom in atoms if atom[0] not in own])
        self.body.say(f"{c_type} before = {kind}::none<{c_type}>();")
        with self.body.block(f"for (I first = 0; first < {count}; first += blockDim.x * V)"):
            self.body.say("const I at_by = first / V + threadIdx.x;")
            self.body.say(f"{c_type} upto[V], mine = {kind}::none<{c_type}>(), all;")
            with self.body.block(f"if (at_by * V < {count})"):
                self._neighbours = Neighbours(self.body, ["const I at = at_by * V + u;"])
                with self._neighbours.each():
                    self._loops.decode("at", along)
                    self.body.say(f"mine = {kind}::of(mine, {self.at(scan.source, index)});")
                    self.body.say("upto[u] = mine;")
                self._neighbours = None
            self.body.say(f"const {c_type} ahead = {kind}::of(before, ahead_of<{kind}>(mine, all));")
            with self.body.block(f"if (live && at_by * V < {count})"):
                self.body.say("#pragma unroll")
                with self.body.block("for (int u = 0; u < V; ++u)"):
                    self.body.say("const I at = at_by * V + u;")
                    self._loops.decode("at", along)
                    self.body.say(f"{place}[{self._linear(index)}] = {kind}::of(ahead, upto[u]);")
            self.body.say(f"before = {kind}::of(before, all);")
        self.has_plain_loops = not self.body.has_branches
        self._multiples = {}

    def _begin_row(self, rows: list[Atom]) -> None:
        count = self.size(self.product(size for _, size in rows))
        self.body.say("const I own = I(blockIdx.x) * blockDim.y + threadIdx.y;")
        self.body.say(f"const bool live = own < {count};")
        self.body.say(f"const I row = live ? own : {count} - 1;")
        self._loops.decode("row", rows)

    def at(self, value: Value, index: Index) -> str:
        """Return the variable that holds one element."""
        known = self.body.known((value, index))
        if known:
            return known
        buffer = self._buffer_of(value)
        text = self.load(buffer, index) if buffer else value.element(self, index)
        if not buffer and value.about and value.about not in self.abouts:
            self.abouts.append(value.about)
        name = self.body.temp(text, value.dtype)
        self.body.learn((value, index), name)
        return name

    def load(self, buffer: Buffer, index: Index) -> str:
        place = f"{self.pointer(buffer)}[{self._linear(index)}]"
        if STORED[buffer.dtype] != C_TYPES[buffer.dtype]:
            place = f"float({place})"
        return self._neighbours.loaded(place, C_TYPES[buffer.dtype]) if self._neighbours else place

    def elsewhere(self, value: Value) -> str:
        """Raise Apart for a value that is never computed where it is read."""
        raise Apart(value)

    def reduced(self, reduction: Reduction, index: Index) -> str:
        """Return the variable with one element of a reduction, computed before the row's elements."""
        if reduction in self._in_pieces:
            return self.at(self._in_pieces[reduction], index)
        digits = [digit for place in index for digit in place]
        names = frozenset(digit.text for digit in digits)
        if not all(map(self._loops.is_whole, digits)):
            raise Apart(reduction)
        if self._rows is None:
            raise RowsOf(names)
        if names != self._rows or (self._is_strided and not reduction.is_across):
            raise Apart(reduction)
        with self.body.outermost():
            name = self.body.known((reduction, index))
            if name is None:
                around, self._neighbours = self._neighbours, None
                name = self._reduce(reduction, index)
                self._neighbours = around
                self.body.learn((reduction, index), name)
        return name

    def _reduce(self, reduction: Reduction, index: Index) -> str:
        number = len(self.reductions)
        self.reductions.append(reduction)
        self.goes_over = self.goes_over or reduction
        over = [reduction.source.shape[axis] for axis in reduction.over]
        atoms, digits = self._loops.atoms(f"r{number}_", over)
        kept, own = list(index), list(digits)
        whole = tuple(
            own.pop(0) if axis in reduction.over else kept.pop(0)
            for axis in range(len(reduction.source.shape))
        )
        kind, c_type = reduction.kind, C_TYPES[reduction.dtype]
        name = f"{kind}{number}"
        self.body.say(f"{c_type} {name} = {kind.capitalize()}::none<{c_type}>();")
        until = "{0}"
        if reduction.within:
            left = self.body.fresh("left")
            self.body.say(f"const I {left} = {reduction.within(self, index)};")
            until = f"({left} < {{0}} ? {left} : {{0}})"
        with self._steps(f"at{number}", atoms, until):
            value = self._of_row(reduction.source, whole)
            given = C_TYPES[reduction.source.dtype if reduction.dtype in STATES else reduction.dtype]
            op, value = kind.capitalize(), f"{given}({value})"
            if self._neighbours:
                self._neighbours.together(value, given, f"{name} = of_all<{op}>({name}, {{}});")
            else:
                self.body.say(f"{name} = {op}::of({name}, {value});")
        self.body.say(f"{name} = of_row<{kind.capitalize()}>({name});")
        return name

    def _of_row(self, source: Value, index: Index) -> str:
        """Return one element of a reduction's source.

        A source with one element per row of another reduction is computed in that reduction's kernel.
        """
        try:
            return self.at(source, index)
        except Apart as apart:
            read = apart.value
            counts = [times(value.shape, self._points) for value in (source, read)]
            raise Apart(source if isinstance(read, Reduction) and counts[0] == counts[1] else read) from None

    def _go_through(self, atoms: list[Atom], what: tuple[Value, Index, str], until: str = "{0}") -> None:
        target, index, place = what
        with self._steps("at", atoms, until):
            value = self.at(target, index)
            stored = f"{place}[{self._linear(index)}]"
            if self._neighbours:
                self._neighbours.store(stored, value, C_TYPES[target.dtype])
            else:
                self.body.say(f"{stored} = {value};")

    @contextmanager
    def _steps(self, variable: str, atoms: list[Atom], until: str) -> Iterator[None]:
        """Open a loop over all values of the loop variables, by `V` if the kernel is wide.

        `until`: the end of the loop, with {0} for the number of values.
        """
        total = self.product(size for _, size in atoms)
        if not atoms:
            self.by_vectors(total)
        loop, at_once = self.body.row_loop, self.schedule.unroll
        if self._rows is None:
            loop, at_once = self.body.grid_loop, self.schedule.vectors
        if not (self.is_wide and atoms) or variable in self._branching:
            with loop(variable, until.format(self.size(total)), at_once):
                self._loops.decode(variable, atoms)
                around, self.body.has_branches = self.body.has_branches, False
                yield
                if self.body.has_branches:
                    self._branching.add(variable)
                self.has_plain_loops |= not self.body.has_branches
                self.body.has_branches = around
            return
        *before, (name, sizes) = self._loops.grouped(atoms)
        row = self._multiple(self.product(sizes))
        count = row if not before else self.size(total)
        by = f"{variable}_by"
        with loop(by, f"{until.format(count)} / V", at_once):
            each = self.divisor(self.product(sizes), wide=True) if before else ""
            self._loops.say(f"{by} / {each}", before)
            named = [f"const I {variable} = {by} * V + u;"]
            if name:
                low = f"{by} % {each}" if before else by
                named.append(f"const I {name} = {low} * V + u;")
            self._loops.are(atoms, variable)
            self._neighbours = Neighbours(self.body, named)
            with self._neighbours.each():
                yield
            self._neighbours = None

    def _linear(self, index: Index) -> str:
        """Return the offset in a contiguous tensor."""
        return self.radix.number(self._loops.joined([digit for place in index for digit in place]))
