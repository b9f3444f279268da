"""Composed program under construction: the values in memory, and the statements that put them there."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent.compose.dims import Dim, Split, is_one, times
from agent.compose.expressions import Sizes
from agent.compose.kernel import Kernel, Memory
from agent.compose.schedules import Schedule, by_rule
from agent.compose.splitting import in_two
from agent.compose.values import Apart, Buffer, Pointwise, Reduction, RowsOf, Scan, Scatter, Value, View

FEW_ROWS = ((512, 1 << 16), (4096, 1 << 17))
"""Pairs of a number of rows and a row length in elements. With fewer rows than that, a row of at least that
length is divided among several blocks, to keep the GPU busy."""


@dataclass(frozen=True)
class Launch:
    """One kernel, and the arguments that `forward` passes to it."""

    kernel: Kernel
    out: Buffer
    by_rows: bool
    across: bool
    """True if neighbouring threads take neighbouring rows, whose elements lie apart."""
    rows: Dim
    inner: Dim
    shape: tuple[str, ...]
    """Shape of the result, as Python."""
    given: tuple[str, ...]
    """Sizes of the kernel as Python, in its order."""
    is_in_place: bool = False
    """True if the kernel changes a tensor that an earlier one has written."""


@dataclass
class Program:
    """Statements of `forward` in order: source text and launches."""

    points: int
    sizes: Sizes
    statements: "list[str | Launch]" = field(default_factory=list)
    buffers: dict[Value, Buffer] = field(default_factory=dict)
    in_pieces: dict[Reduction, Reduction] = field(default_factory=dict)
    """For each long reduction, the reduction of its pieces' results."""
    names: set[str] = field(default_factory=set)
    change: Mapping[str, int] = field(default_factory=dict)
    """Change of every kernel's schedule, relative to the rule."""

    def named(self, stem: str) -> str:
        """Return an unused variable name for forward."""
        name, number = stem, 2
        while name in self.names:
            name, number = f"{stem}_{number}", number + 1
        self.names.add(name)
        return name

    def buffer_of(self, value: Value) -> Buffer | None:
        return value if isinstance(value, Buffer) else self.buffers.get(value)

    def python(self, value: Value) -> str:
        """Return the tensor as Python in `forward`. Stores the value in memory if it is not there yet."""
        spelled = self._spelled(value)
        return spelled[0] if spelled else self.realized(value).name

    def in_memory(self, value: Value) -> Value:
        """Return the value if it lies in memory or is a view of one that does. Otherwise store it."""
        return value if self._spelled(value) else self.realized(value)

    def result(self, value: Value) -> str:
        """Return the contiguous tensor that `forward` returns for a value, as Python."""
        spelled = self._spelled(value)
        return spelled[0] if spelled and spelled[1] else self.realized(value).name

    def _spelled(self, value: Value) -> tuple[str, bool] | None:
        """Return a buffer or a view of one as Python, and True if it is contiguous.

        A reshape of a contiguous tensor copies nothing. Returns None for any other value.
        """
        buffer = self.buffer_of(value)
        if buffer:
            return buffer.name, True
        source = self._spelled(value.operands[0]) if isinstance(value, View) else None
        if source is None or not isinstance(value, View):
            return None
        text, contiguous = source
        if value.is_reshape and contiguous:
            return f"{text}.view({', '.join(map(self.sizes.text, value.shape))})", True
        if value.text is None:
            return None
        return value.text.format(text, *map(self.sizes.text, value.sizes)), False

    def realized(self, value: Value) -> Buffer:
        """Return the buffer that holds the value from here on."""
        known = self.buffer_of(value)
        if known:
            return known
        if isinstance(value, Reduction) and self._is_long(value):
            self.buffers[value] = self.realized(self._of_pieces(value))
            return self.buffers[value]
        out = Buffer(value.shape, value.dtype, value.about, self.named(value.about or "t"))
        self.statements += self._scattered(value, out) if isinstance(value, Scatter) else [
            self._launch(value, out)
        ]  # fmt: skip
        self.buffers[value] = out
        self.sizes.add(out.name, out.shape)
        return out

    def _scattered(self, value: Scatter, out: Buffer) -> list[Launch]:
        """Return the launches that copy the base and put the source's elements into the copy."""
        for read in (value.source, *value.places):
            self.in_memory(read)
        base = value.base
        copy = Pointwise(
            value.shape, value.dtype, "copy", (base,), lambda kernel, index: kernel.at(base, index)
        )
        first = self._launch(copy, out)
        splits: dict[str, Dim] = {}
        memory = Memory(self.buffer_of, self.in_pieces, self.sizes)
        while True:
            kernel = Kernel(f"fused_{self.named(f'into_{out.name}')}", self.points, memory, splits, None)
            try:
                kernel.write_scatter(value, out)
            except Split as split:
                splits[split.name] = split.low
                continue
            kernel.abouts = [value.about]
            second = self._described(kernel, out, value.source.shape)
            return [first, replace(second, is_in_place=True)]

    def _of_pieces(self, reduction: Reduction) -> Reduction:
        """Return a long reduction as a reduction of its pieces' results.

        These results are in memory from here on.
        """
        if reduction not in self.in_pieces:
            first, self.in_pieces[reduction] = in_two(reduction, self.points, self.sizes)
            self.realized(first)
        return self.in_pieces[reduction]

    def _is_long(self, reduction: Reduction) -> bool:
        if reduction.within is not None:  # already a piece
            return False
        rows = times(reduction.shape, self.points)[0]
        inner = times((reduction.source.shape[axis] for axis in reduction.over), self.points)[0]
        return any(rows < few and inner >= many for few, many in FEW_ROWS)

    def _launch(self, value: Value, out: Buffer) -> Launch:
        splits: dict[str, Dim] = {}
        memory = Memory(self.buffer_of, self.in_pieces, self.sizes)
        rows: frozenset[str] | None = None
        while True:
            kernel = Kernel(f"fused_{out.name}", self.points, memory, splits, rows)
            try:
                if isinstance(value, Scan):
                    kernel.write_scan(value, out)
                else:
                    kernel.write(value, out)
            except Split as split:
                splits[split.name] = split.low
                if rows and split.name in rows:  # the rows are found again
                    rows = None
            except RowsOf as found:
                rows = found.names
            except Apart as apart:
                self.realized(apart.value)
                splits, rows = {}, None  # the loops are others now
            else:
                too_long = [r for r in kernel.reductions if self._is_long(r)]
                if not too_long:
                    return self._described(self._again(kernel, value, out, splits, rows), out)
                for reduction in too_long:
                    if times(reduction.shape, self.points) == times(value.shape, self.points):
                        self._of_pieces(reduction)  # this kernel has the same rows
                    else:
                        self.realized(reduction)
                splits, rows = {}, None

    def _again(
        self, known: Kernel, value: Value, out: Buffer, splits: dict[str, Dim], rows: frozenset[str] | None
    ) -> Kernel:
        """Write the same kernel again, with what the first pass has shown.

        It shows which loop variables are read, and whether the kernel may be wide.
        """
        wide = known.has_plain_loops and not (known.goes_over and known.goes_over.is_across)
        memory = Memory(self.buffer_of, self.in_pieces, self.sizes)
        known.schedule = self._schedule(known.goes_over)
        for _ in range(2 if wide else 1):  # the first pass finds the sizes that must be multiples
            known = Kernel(known.name, self.points, memory, splits, rows, known)
            write = known.write_scan if isinstance(value, Scan) else known.write
            write(value, out, wide)  # type: ignore[arg-type]
        return known

    def _schedule(self, row: Reduction | Scan | None) -> Schedule:
        """Return the schedule of a kernel that goes over the rows of `row`. None means no rows."""
        shape = row.source.shape if row else ()
        over = row.over if row else ()
        inner = times((shape[axis] for axis in over), self.points)
        rows = times((size for axis, size in enumerate(shape) if axis not in over), self.points)
        return by_rule(rows if row else None, inner).changed(self.change)

    def _described(self, kernel: Kernel, out: Buffer, elements: tuple[Dim, ...] | None = None) -> Launch:
        """Return the launch of a written kernel. `elements`: shape of its loop, if it is not the result's."""
        across, inner = False, (1,) * self.points
        count = kernel.product(out.shape if elements is None else elements)
        first = kernel.goes_over
        if first is not None:
            shape = first.source.shape
            inner = kernel.product(shape[axis] for axis in first.over)
            count = kernel.product(size for axis, size in enumerate(shape) if axis not in first.over)
            across = first.is_across
        for size in (
            count,
            inner,
            *(by for by, _ in kernel.divisors),
            *(size for buffer in kernel.pointers for size in buffer.shape),
        ):
            kernel.size(size)  # registers sizes that the launch and its checks read
        read = [buffer for buffer in kernel.pointers if buffer is not out and buffer.name.isidentifier()]
        return Launch(
            kernel, out, first is not None, across, count, inner,
            tuple(self._near(size, read) for size in out.shape),
            tuple(self._near(size, read) for size in kernel.sizes),
        )  # fmt: skip

    def _near(self, size: Dim, read: list[Buffer]) -> str:
        """Return a size as Python, preferably from the shape of a tensor that the kernel reads.

        Other sizes may be equal to it by chance.
        """
        places = (
            (buffer.name, axis) for buffer in read for axis, own in enumerate(buffer.shape) if own == size
        )
        name, axis = next(places, ("", 0))
        return f"{name}.shape[{axis}]" if name and not is_one(size) else self.sizes.text(size)
