#include "examples/char_lm/text.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <unistd.h>
#include <vector>
#include <xxhash.h>

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw std::runtime_error(path.string() + ": cannot be read");
  return text;
}

std::vector<fs::path> files_at(const fs::path& path) {
  if (!fs::exists(path)) throw std::runtime_error(path.string() + ": there is no such file or folder");
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace

Text::Text(const std::string& path) {
  for (const fs::path& file : files_at(path)) characters_ += read(file);
  if (characters_.empty()) throw std::runtime_error(path + ": is empty; give a file or folder with text");
  const std::set<char> occurring(characters_.begin(), characters_.end());
  vocabulary_.assign(occurring.begin(), occurring.end());
}

std::uint8_t Text::token_of(char character) const {
  const auto found = std::ranges::lower_bound(vocabulary_, character);
  const bool known = found != vocabulary_.end() && *found == character;
  return static_cast<std::uint8_t>(known ? found - vocabulary_.begin() : 0);
}

std::string Text::write_tokens(const std::string& folder) const {
  std::string tokens(characters_.size(), '\0');
  std::ranges::transform(characters_, tokens.begin(),
                         [this](char character) { return static_cast<char>(token_of(character)); });
  const std::string path =
      fmt::format("{}/char_lm-{:016x}.tokens", folder, XXH3_64bits(tokens.data(), tokens.size()));
  const std::string unfinished = fmt::format("{}.{}", path, getpid());
  std::ofstream file(unfinished, std::ios::binary);
  file << tokens;
  file.close();
  if (!file) throw std::runtime_error(unfinished + ": cannot be written");
  fs::rename(unfinished, path);
  return path;
}
