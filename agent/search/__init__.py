"""What a run asks next, and whether it still may: policies over a tree of rounds, and the budget."""
