"""Runs whose answers come through a mailbox, judged side by side on what GPUs there are."""
