// This file is empty. It exists because the CMake target that owns torch's precompiled header needs a source
// file.
