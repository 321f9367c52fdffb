// Nothing: the target that owns the benchmarks' precompiled header needs a source.
