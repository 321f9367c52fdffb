// Base images for tests, made from Debian's packages by mmdebstrap, without a registry.
//
// Creates each image once per user, under a lock, and keeps it as a tar file below
// ${XDG_CACHE_HOME:-~/.cache}/muster/images. This takes 10 s, for `python` a minute. The packages come from
// the mirror of this machine's apt.
#pragma once

#include <string>

namespace muster::docker {

// bookworm, trixie, bullseye: bash and busybox on that release's libc, 16 MB, without libssl and libstdc++.
// python: bookworm with apt, python3, libstdc++ and the other libraries for LibTorch's Python package, 200
// MB. sshd: bookworm with apt and sshd, 130 MB. Returns the path of the image's tar file, after creating it
// if it is missing.
std::string base_image(const std::string& name);

// The interpreter in `python` that finds torch and numpy if torch_mount() is mounted.
constexpr const char* kTorchPython = "/usr/bin/python3";
// SOURCE:TARGET:ro, for `--volume`: mounts this machine's torch where kTorchPython looks for modules.
std::string torch_mount();
// The same at its own path, for C++ programs of this build that use LibTorch.
std::string libtorch_mount();
// Why neither can be mounted; empty: they can. A build without the runtime lacks torch, and another version
// of Python cannot load it.
std::string why_no_torch_mount();

}  // namespace muster::docker
