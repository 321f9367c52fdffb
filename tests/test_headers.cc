// Nothing: the target that owns the tests' precompiled header needs a source.
