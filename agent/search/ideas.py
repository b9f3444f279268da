"""Approaches that lines begin with, so that they do not all begin with the same kernel."""

IDEAS = (
    "",
    "Approach to try: as few kernels as there can be, each value read from memory once and kept in "
    "registers or shared memory until nothing needs it any more.",
    "Approach to try: put the arithmetic on the tensor cores (wmma or mma), splitting float32 into "
    "parts where its accuracy needs it.",
    "Approach to try: do less arithmetic. Look for what can be factored out, computed once, "
    "cancelled or replaced by a cheaper form that is equal, and only then write the kernel.",
    "Approach to try: keep every SM busy. Split long reductions over blocks, give short ones several "
    "to a block, and choose the grid from the shapes.",
    "Approach to try: hide the memory's latency. Load ahead in stages (cp.async or plain registers) "
    "while the tile before is computed, with accesses as wide as the alignment allows.",
)
AGAIN = "Approach to try, number {}: another one than the first that comes to mind."


def choose_idea(number: int) -> str:
    """Return the approach for line 0, 1, 2, ...: none for the first, a different one for each other."""
    return IDEAS[number] if number < len(IDEAS) else AGAIN.format(number + 1)
