"""The composed program while it grows: which values lie in memory, and the statements that put them there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.compose.dims import Dim, Split, is_one, times
from agent.compose.expressions import Sizes
from agent.compose.kernel import Kernel, Memory
from agent.compose.schedules import Schedule, by_rule
from agent.compose.splitting import in_two
from agent.compose.values import Apart, Buffer, Reduction, RowsOf, Scan, Value, View

FEW_ROWS = ((512, 1 << 16), (4096, 1 << 17))
"""With fewer rows than blocks that keep a GPU busy, a row of so many elements is several blocks' work."""


@dataclass(frozen=True)
class Launch:
    """One kernel, and what `forward` gives it."""

    kernel: Kernel
    out: Buffer
    by_rows: bool
    across: bool
    """Neighbouring threads take neighbouring rows, whose elements lie apart."""
    rows: Dim
    inner: Dim
    shape: tuple[str, ...]
    """Of the result, as Python."""
    given: tuple[str, ...]
    """The kernel's sizes as Python, in its order."""


@dataclass
class Program:
    """Statements of `forward` in order: texts, and launches."""

    points: int
    sizes: Sizes
    statements: "list[str | Launch]" = field(default_factory=list)
    buffers: dict[Value, Buffer] = field(default_factory=dict)
    in_pieces: dict[Reduction, Reduction] = field(default_factory=dict)
    """For long reductions those of their pieces' results."""
    names: set[str] = field(default_factory=set)
    change: Mapping[str, int] = field(default_factory=dict)
    """What every kernel's schedule is changed by against the rule."""

    def named(self, stem: str) -> str:
        """A variable of forward that is not taken."""
        name, number = stem, 2
        while name in self.names:
            name, number = f"{stem}_{number}", number + 1
        self.names.add(name)
        return name

    def buffer_of(self, value: Value) -> Buffer | None:
        return value if isinstance(value, Buffer) else self.buffers.get(value)

    def python(self, value: Value) -> str:
        """How `forward` spells the tensor, which is put in memory where it is not there yet."""
        spelled = self._spelled(value)
        return spelled[0] if spelled else self.realized(value).name

    def in_memory(self, value: Value) -> Value:
        """The same value where it lies in memory or is a view of such; else the buffer that it is put in."""
        return value if self._spelled(value) else self.realized(value)

    def result(self, value: Value) -> str:
        """What `forward` returns for it: contiguous."""
        spelled = self._spelled(value)
        return spelled[0] if spelled and spelled[1] else self.realized(value).name

    def _spelled(self, value: Value) -> tuple[str, bool] | None:
        """A buffer or views of one as Python, and whether it is contiguous: then a reshape copies nothing."""
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
        """The buffer that holds it from here on."""
        known = self.buffer_of(value)
        if known:
            return known
        if isinstance(value, Reduction) and self._is_long(value):
            self.buffers[value] = self.realized(self._of_pieces(value))
            return self.buffers[value]
        out = Buffer(value.shape, value.dtype, value.about, self.named(value.about or "t"))
        self.statements.append(self._launch(value, out))
        self.buffers[value] = out
        self.sizes.add(out.name, out.shape)
        return out

    def _of_pieces(self, reduction: Reduction) -> Reduction:
        """What a long one is of its pieces' results, which are in memory from here on."""
        if reduction not in self.in_pieces:
            first, self.in_pieces[reduction] = in_two(reduction, self.points, self.sizes)
            self.realized(first)
        return self.in_pieces[reduction]

    def _is_long(self, reduction: Reduction) -> bool:
        if reduction.within is not None:  # a piece already
            return False
        rows = times(reduction.shape, self.points)[0]
        inner = times((reduction.source.shape[axis] for axis in reduction.over), self.points)[0]
        return any(rows < few and inner >= many for few, many in FEW_ROWS)

    def _launch(self, value: Value, out: Buffer) -> Launch:
        splits: dict[str, Dim] = {}
        memory = Memory(self.buffer_of, self.in_pieces)
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
                if rows and split.name in rows:  # found anew
                    rows = None
            except RowsOf as found:
                rows = found.names
            except Apart as apart:
                self.realized(apart.value)
                rows = None
            else:
                too_long = [r for r in kernel.reductions if self._is_long(r)]
                if not too_long:
                    return self._described(self._again(kernel, value, out, splits, rows), out)
                for reduction in too_long:
                    if times(reduction.shape, self.points) == times(value.shape, self.points):
                        self._of_pieces(reduction)  # this kernel goes by the same rows
                    else:
                        self.realized(reduction)
                rows = None

    def _again(
        self, known: Kernel, value: Value, out: Buffer, splits: dict[str, Dim], rows: frozenset[str] | None
    ) -> Kernel:
        """The same kernel, by what is known of it: which loop variables count, and whether it may be wide."""
        wide = known.has_plain_loops and not (known.goes_over and known.goes_over.is_across)
        memory = Memory(self.buffer_of, self.in_pieces)
        known.schedule = self._schedule(known.goes_over)
        for _ in range(2 if wide else 1):  # at first not all sizes are known that have to be multiples
            known = Kernel(known.name, self.points, memory, splits, rows, known)
            write = known.write_scan if isinstance(value, Scan) else known.write
            write(value, out, wide)  # type: ignore[arg-type]
        return known

    def _schedule(self, row: Reduction | Scan | None) -> Schedule:
        """Of a kernel whose rows are reduced or scanned as this says; where it is None, without rows."""
        shape = row.source.shape if row else ()
        over = row.over if row else ()
        inner = times((shape[axis] for axis in over), self.points)
        rows = times((size for axis, size in enumerate(shape) if axis not in over), self.points)
        return by_rule(rows if row else None, inner).changed(self.change)

    def _described(self, kernel: Kernel, out: Buffer) -> Launch:
        across, count, inner = False, kernel.product(out.shape), (1,) * self.points
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
            kernel.size(size)  # what the launch and its checks ask for
        read = [buffer for buffer in kernel.pointers if buffer is not out and buffer.name.isidentifier()]
        return Launch(
            kernel, out, first is not None, across, count, inner,
            tuple(self._near(size, read) for size in out.shape),
            tuple(self._near(size, read) for size in kernel.sizes),
        )  # fmt: skip

    def _near(self, size: Dim, read: list[Buffer]) -> str:
        """A size as Python, of what the kernel reads where that has it: others may be equal by chance."""
        places = (
            (buffer.name, axis) for buffer in read for axis, own in enumerate(buffer.shape) if own == size
        )
        name, axis = next(places, ("", 0))
        return f"{name}.shape[{axis}]" if name and not is_one(size) else self.sizes.text(size)
