// Empty: the target that owns the precompiled header of torch needs a source.
