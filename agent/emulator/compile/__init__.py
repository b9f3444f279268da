"""From a request to a library: compilers, their messages, caches."""
