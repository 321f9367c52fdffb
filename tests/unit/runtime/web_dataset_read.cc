// Reads archives with WebDataset for webdataset_official.py. Standard input has their paths, one per line.
//
// Prints "archive PATH" for each archive, "sample KEY" for each sample, "part NAME VALUE" for each of its
// parts, "error TEXT" for each exception, and "end".
#include <cstdio>
#include <fmt/ranges.h>
#include <iostream>
#include <muster/data/web_dataset.h>
#include <torch/torch.h>
#include <zlib.h>

namespace muster {
namespace {

std::string sum_of(const void* begin, std::size_t size) {
  return fmt::format("{} bytes, {:08x}", size, crc32_z(0, static_cast<const Bytef*>(begin), size));
}

std::string value_of(const at::Tensor& array) {
  return fmt::format("{} [{}] {}", c10::toString(array.scalar_type()), fmt::join(array.sizes(), ","),
                     sum_of(array.const_data_ptr(), array.nbytes()));
}

std::string value_of(const WebSample& sample, const std::string& name) {
  if (name.ends_with("cls")) return std::to_string(sample.number(name));
  if (name.ends_with("json"))
    return fmt::format("{} {}", sample.json_number(name, "label"), sample.json_text(name, "/captions/0"));
  if (name.ends_with("npy")) return value_of(sample.array(name));
  if (name.ends_with("npz")) {
    std::string all;
    for (const auto& [key, array] : sample.arrays(name)) all += fmt::format("{}: {}; ", key, value_of(array));
    return all;
  }
  const auto bytes = sample.bytes(name);
  return sum_of(bytes.data(), bytes.size());
}

void print(const WebSample& sample) {
  std::cout << "sample " << sample.key << '\n';
  for (const auto& part : sample.parts) {
    try {
      std::cout << "part " << part.first << ' ' << value_of(sample, part.first) << '\n';
    } catch (const std::exception& error) {
      std::cout << "error " << error.what() << '\n';
    }
  }
}

void read(const std::string& path) {
  std::cout << "archive " << path << '\n';
  try {
    const WebDataset dataset({path}, [](const WebSample& sample) { return sample; });
    const auto reader = dataset.open({});
    while (const auto sample = reader->next()) print(*sample);
  } catch (const std::exception& error) {
    std::cout << "error " << error.what() << '\n';
  }
  std::cout << "end\n";
}

}  // namespace
}  // namespace muster

int main() {
  for (std::string path; std::getline(std::cin, path);) muster::read(path);
  return 0;
}
