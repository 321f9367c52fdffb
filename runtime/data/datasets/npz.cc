#include "runtime/data/datasets/npz.h"

#include <span>

#include "common/base/text.h"
#include "runtime/data/datasets/npy.h"
#include "runtime/data/datasets/zip.h"

namespace muster {

Expected<std::map<std::string, at::Tensor>> tensors_of_npz(std::string_view bytes) {
  constexpr std::string_view kEnd = ".npy";
  const auto entries = zip_entries(bytes);
  if (!entries) return std::unexpected(entries.error());
  std::map<std::string, at::Tensor> tensors;
  for (const ZipEntry& entry : *entries) {
    if (!entry.name.ends_with(kEnd))
      return failure(ErrorCode::kCorrupt, "{} in its ZIP archive is not a .npy file", one_line(entry.name));
    std::string unpacked;
    const auto contents = zip_contents(entry, unpacked);
    if (!contents) return std::unexpected(contents.error());
    auto tensor = tensor_of_npy(std::as_bytes(std::span(*contents)));
    if (!tensor) return failure_within(one_line(entry.name), std::move(tensor));
    const std::string name = entry.name.substr(0, entry.name.size() - kEnd.size());
    if (!tensors.emplace(name, *std::move(tensor)).second)
      return failure(ErrorCode::kCorrupt, "its ZIP archive has two files named {}", one_line(entry.name));
  }
  return tensors;
}

}  // namespace muster
