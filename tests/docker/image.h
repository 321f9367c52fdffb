// Base images for tests, made from Debian's packages by mmdebstrap, without a registry.
//
// Each is made once by a user, under a lock, and kept as a tar file below
// ${XDG_CACHE_HOME:-~/.cache}/muster/images: it takes 10 s, `python` a minute. The packages come from where
// this machine's apt gets its own.
#pragma once

#include <string>

namespace muster::docker {

// bookworm, trixie, bullseye: bash and busybox on that release's libc, 16 MB, without libssl and libstdc++.
// python: bookworm with apt, python3, libstdc++ and what LibTorch's Python package needs besides, 200 MB.
// sshd: bookworm with apt and sshd, 130 MB.
// The path of its tar file, which is made when it is missing.
std::string base_image(const std::string& name);

// Of a container of `python`: the interpreter that finds torch and numpy where torch_mount() is mounted.
constexpr const char* kTorchPython = "/usr/bin/python3";
// SOURCE:TARGET:ro, for `--volume`: this machine's torch where kTorchPython looks for modules.
std::string torch_mount();
// The same on its own path, for C++ programs of this build that use LibTorch.
std::string libtorch_mount();
// Why neither can be mounted; empty: they can. There is no torch in a build without the runtime, and another
// version of Python cannot load it.
std::string why_no_torch_mount();

}  // namespace muster::docker
