"""Renaming the parameters of a verified candidate to the names that the reference uses.

The file gets a suffix that translates names at the module's interface. `load_state_dict`, `state_dict`,
`named_parameters` and `named_buffers` of a ModelNew then use the reference's names. Inside the module nothing
changes. The class is modified in place, because `super(ModelNew, self)` in it looks up its name at run time.
"""

import json
from collections.abc import Mapping

_END = """

# The names of the reference's parameters -> those that this file gives them. What follows lets ModelNew load
# and give the reference's state_dict, by the reference's names.
_NAMES_IN_THE_REFERENCE = {names}


def _take_the_reference_names(cls):
    load, save = cls._load_from_state_dict, cls.state_dict
    parameters, buffers = cls.named_parameters, cls.named_buffers
    theirs = {{own: name for name, own in _NAMES_IN_THE_REFERENCE.items()}}

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        for own, name in theirs.items():
            if prefix + name in state_dict:
                state_dict[prefix + own] = state_dict.pop(prefix + name)
        return load(self, state_dict, prefix, *args, **kwargs)

    def state_dict(self, *args, **kwargs):
        held = save(self, *args, **kwargs)
        prefix = kwargs.get("prefix", args[1] if len(args) > 1 else "")
        for own, name in theirs.items():
            if prefix + own in held:
                held[prefix + name] = held.pop(prefix + own)
        return held

    def renamed(pairs, prefix):
        before = prefix + "." if prefix else ""
        for full, tensor in pairs:
            yield before + theirs.get(full[len(before):], full[len(before):]), tensor

    def named_parameters(self, prefix="", *args, **kwargs):
        return renamed(parameters(self, prefix, *args, **kwargs), prefix)

    def named_buffers(self, prefix="", *args, **kwargs):
        return renamed(buffers(self, prefix, *args, **kwargs), prefix)

    for function in (_load_from_state_dict, state_dict, named_parameters, named_buffers):
        setattr(cls, function.__name__, function)


_take_the_reference_names(ModelNew)
"""


def with_reference_names(source: str, names: Mapping[str, str]) -> str:
    """Append the renaming suffix to the source, unless `names` (reference name -> own name) is empty."""
    if not names:
        return source
    # A JSON object of strings is also a Python literal.
    return source.rstrip("\n") + "\n" + _END.format(names=json.dumps(dict(names), indent=4))
