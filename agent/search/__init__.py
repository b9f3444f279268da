"""Search of a run: policies over a tree of rounds choose the next question, and a budget limits them."""
