"""The judge: turns one candidate into one evaluation, by trials and the further checks of a new best."""
