#include "runtime/data/datasets/token_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fmt/ranges.h>
#include <glob.h>
#include <set>
#include <string_view>

#include "runtime/data/datasets/file_kind.h"
#include "runtime/data/datasets/npy.h"
#include "runtime/data/datasets/number_at.h"
#include "runtime/data/datasets/stream_folder.h"

namespace muster {

namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

constexpr std::size_t kLlmcHeaderBytes = 1024;
constexpr std::size_t kLookedTokens = 4096;  // wider_by() examines at most this many tokens

std::unexpected<Error> unusable(const std::string& path, const std::string& why) {
  return failure(ErrorCode::kCorrupt, "cannot use {}: {}", path, why);
}

// Sets file.tokens and file.count. The tokens begin at byte `first`. Fails unless there are exactly `count`
// tokens from there to the end of the file.
Status set_tokens(TokenFile& file, std::size_t first, std::uint64_t count) {
  const Bytes bytes = file.file.bytes();
  const std::uint64_t there = bytes.size() - first, size = c10::elementSize(file.dtype);
  if (there % size != 0 || there / size != count) {
    return unusable(file.path, fmt::format("its header says {} {} tokens, {} bytes, and {} follow: it is {}",
                                           count, c10::toString(file.dtype), count * size, there,
                                           there / size < count ? "cut off" : "longer than that"));
  }
  file.tokens = bytes.data() + first;
  file.count = static_cast<std::int64_t>(count);
  return {};
}

// ---- numpy's

Status read_npy(TokenFile& file) {
  const Bytes bytes = file.file.bytes();
  const auto header = read_npy_header(bytes);
  if (!header) return unusable(file.path, header.error().message());
  constexpr at::ScalarType kTypes[] = {at::kByte, at::kUInt16, at::kUInt32, at::kInt, at::kLong};
  if (!header->dtype || std::ranges::find(kTypes, *header->dtype) == std::end(kTypes))
    return unusable(file.path, fmt::format("its array has the type {}, and tokens are whole numbers: "
                                           "save tokens.astype(np.uint16), or uint32",
                                           header->descr));
  if (header->shape.size() != 1)
    return unusable(file.path, fmt::format("its array has the shape ({}): save it as one row, by reshape(-1)",
                                           fmt::join(header->shape, ", ")));
  file.dtype = *header->dtype;
  if (header->data_at % c10::elementSize(file.dtype) != 0)  // numpy pads its header to 16 or 64 bytes
    return unusable(file.path, "its header of a numpy array is damaged");
  return set_tokens(file, header->data_at, static_cast<std::uint64_t>(header->shape[0]));
}

// ---- llm.c's

struct LlmcKind {
  std::int32_t magic, version;
  at::ScalarType dtype;
};
constexpr LlmcKind kLlmc[] = {{20240520, 1, at::kUInt16}, {20240801, 7, at::kUInt32}};

const LlmcKind* llmc_kind(Bytes bytes) {
  if (bytes.size() < 4) return nullptr;
  const auto found = std::ranges::find(kLlmc, number_at<std::int32_t>(bytes, 0), &LlmcKind::magic);
  return found == std::end(kLlmc) ? nullptr : &*found;
}

Status read_llmc(TokenFile& file, const LlmcKind& kind) {
  const Bytes bytes = file.file.bytes();
  if (bytes.size() < kLlmcHeaderBytes || number_at<std::int32_t>(bytes, 4) != kind.version)
    return unusable(file.path,
                    fmt::format("its llm.c header is cut off, or its version is not {}", kind.version));
  file.dtype = kind.dtype;
  return set_tokens(file, kLlmcHeaderBytes, number_at<std::uint32_t>(bytes, 8));
}

// ---- Megatron's

constexpr std::size_t kIndexHeaderBytes = 34;

std::optional<at::ScalarType> type_of_code(std::uint8_t code) {
  constexpr std::array<std::optional<at::ScalarType>, 9> kTypes{std::nullopt, at::kByte,    std::nullopt,
                                                                std::nullopt, at::kInt,     at::kLong,
                                                                std::nullopt, std::nullopt, at::kUInt16};
  return code < kTypes.size() ? kTypes[code] : std::nullopt;
}

// Reads Megatron's .idx file. It has these parts:
//
// - "MMIDIDX\0\0", the version, the type, the number of sequences, and the number of documents;
// - the length of each sequence;
// - for each sequence, the byte in the .bin file where it begins;
// - for each document, the number of its first sequence. After the last document, there is the number of all
//   sequences.
Status read_index(TokenFile& file, const std::string& path) {
  const auto index = MappedFile::open(path);
  if (!index) return std::unexpected(index.error());
  const Bytes bytes = index->bytes();
  const auto damaged = [&](const std::string& what) { return unusable(path, "it is damaged: " + what); };
  if (bytes.size() < kIndexHeaderBytes || file_kind(bytes, bytes.size()) != FileKind::kMegatronIndex)
    return unusable(path, "it is not a Megatron index");
  if (const auto version = number_at<std::uint64_t>(bytes, 9); version != 1)
    return unusable(path, fmt::format("its version is {}; only 1 is supported", version));
  const auto code = number_at<std::uint8_t>(bytes, 17);
  const auto type = type_of_code(code);
  if (!type)
    return unusable(path, fmt::format("its tokens have type {}; "
                                      "only 1 (uint8), 4 (int32), 5 (int64) and 8 (uint16) are supported",
                                      code));
  file.dtype = *type;
  const auto sequences = number_at<std::uint64_t>(bytes, 18), documents = number_at<std::uint64_t>(bytes, 26);
  const std::uint64_t rest = bytes.size() - kIndexHeaderBytes;
  if (sequences > rest / 12 || documents > (rest - sequences * 12) / 8)
    return damaged(fmt::format("it promises {} sequences and {} documents, and has {} bytes", sequences,
                               documents, bytes.size()));
  const std::size_t pointers_at = kIndexHeaderBytes + 4 * sequences,
                    documents_at = pointers_at + 8 * sequences;
  const std::size_t token_bytes = c10::elementSize(file.dtype);
  std::uint64_t tokens = 0, document = 0;
  const auto end_documents_at = [&](std::uint64_t sequence) {
    for (; document < documents && number_at<std::uint64_t>(bytes, documents_at + 8 * document) == sequence;
         ++document)
      if (file.documents.empty() || file.documents.back() != static_cast<std::int64_t>(tokens))
        file.documents.push_back(static_cast<std::int64_t>(tokens));
  };
  for (std::uint64_t sequence = 0; sequence < sequences; ++sequence) {
    end_documents_at(sequence);
    const auto length = number_at<std::int32_t>(bytes, kIndexHeaderBytes + 4 * sequence);
    if (length < 0 || number_at<std::uint64_t>(bytes, pointers_at + 8 * sequence) != tokens * token_bytes)
      return damaged(fmt::format("sequence {} does not begin where the one before it ends", sequence));
    tokens += static_cast<std::uint64_t>(length);
  }
  end_documents_at(sequences);
  if (document != documents)
    return damaged(fmt::format("document {} does not begin at the start of a sequence", document));
  if (Status set = set_tokens(file, 0, tokens); !set) return set;
  if (file.documents.empty() || file.documents.front() != 0) file.documents.insert(file.documents.begin(), 0);
  if (file.documents.back() != file.count) file.documents.push_back(file.count);
  return {};
}

// Finds the .idx file of Megatron's format. `path` can be the .idx file, the .bin file, or the path of both
// without the ending. Returns nothing if there is no .idx file, or if the .idx file next to a .bin is a file
// of another kind.
std::optional<std::string> index_of(const std::string& path) {
  std::error_code ignored;
  const fs::path given(path);
  if (given.extension() == ".idx") return path;
  if (given.extension() == ".bin") {
    std::string beside = fs::path(given).replace_extension(".idx");
    if (!fs::exists(beside, ignored)) return std::nullopt;
    const auto index = MappedFile::open(beside);  // if this fails, read_index() says why
    if (index && file_kind(index->bytes(), index->bytes().size()) != FileKind::kMegatronIndex)
      return std::nullopt;
    return beside;
  }
  if (fs::exists(given, ignored) || !fs::exists(path + ".idx", ignored)) return std::nullopt;
  return path + ".idx";
}

// ---- Raw tokens

// Guesses whether the tokens of the file are 2 or 4 times as wide as `token_bytes`. If so, returns 2 or 4.
// Otherwise returns nothing.
//
// This function reads the file as words of `token_bytes` bytes. If the tokens are wider, each token consists
// of 2 or 4 words: the low word, the high word, and perhaps two more. All of them are 0 except the low word.
// There is one exception: with words of 16 bits, the high word can be up to 7, because vocabularies have
// fewer than 2^19 tokens.
std::optional<std::size_t> wider_by(Bytes bytes, std::size_t token_bytes) {
  constexpr std::uint64_t kHighParts = 8;
  const std::size_t count = std::min(bytes.size() / token_bytes, kLookedTokens);
  if (token_bytes == 1 || count < 32) return std::nullopt;
  const auto word = [&](std::size_t i) {
    return token_bytes == 2   ? number_at<std::uint16_t>(bytes, i * 2)
           : token_bytes == 4 ? number_at<std::uint32_t>(bytes, i * 4)
                              : number_at<std::uint64_t>(bytes, i * 8);
  };
  for (const std::size_t factor : {4, 2}) {
    if (token_bytes * factor > 8) continue;
    bool fits = true, any = false;
    for (std::size_t i = 0; fits && i < count; ++i) {
      const std::size_t place = i % factor;
      any = any || (place == 0 && word(i) >= kHighParts);
      fits = place == 0 || word(i) < (place == 1 && token_bytes == 2 ? kHighParts : 1);
    }
    if (fits && any) return factor;
  }
  return std::nullopt;
}

Status read_plain(TokenFile& file) {
  const Bytes bytes = file.file.bytes();
  const std::size_t token_bytes = c10::elementSize(file.dtype);
  if (token_bytes > 1 && bytes.size() >= 64 && looks_like_text(bytes))
    return unusable(file.path, fmt::format("it is text, not tokens of type {}: tokenize it first, "
                                           "or set dtype = at::kByte to use its bytes as tokens",
                                           c10::toString(file.dtype)));
  if (bytes.size() % token_bytes != 0) {
    return unusable(file.path,
                    fmt::format("its {} bytes are not a whole number of {} tokens of {} bytes each; "
                                "it is truncated, or has another type",
                                bytes.size(), c10::toString(file.dtype), token_bytes));
  }
  if (const auto factor = wider_by(bytes, token_bytes))
    return unusable(file.path,
                    fmt::format("its tokens seem to have {} bytes each, and would be read as {}: set dtype",
                                *factor * token_bytes, c10::toString(file.dtype)));
  return set_tokens(file, 0, bytes.size() / token_bytes);
}

Status read_tokens(TokenFile& file, const std::optional<std::string>& index) {
  const Bytes bytes = file.file.bytes();
  if (index) return read_index(file, *index);
  if (const auto kind = file_kind(bytes, bytes.size())) {
    if (*kind == FileKind::kNpy) return read_npy(file);
    // If each token has one byte, the file can be any text. It can even be HTML.
    if (*kind != FileKind::kHtml || c10::elementSize(file.dtype) > 1)
      return unusable(
          file.path,
          fmt::format("it is {}; load it in Python, and save it with np.save(\"train.npy\", tokens)",
                      description_of(*kind)));
  }
  const LlmcKind* const llmc = llmc_kind(bytes);
  return llmc == nullptr ? read_plain(file) : read_llmc(file, *llmc);
}

}  // namespace

Expected<TokenFile> open_token_file(const std::string& path, std::optional<at::ScalarType> dtype) {
  for (const auto check : {check_is_path, check_is_no_stream})
    if (Status usable = check(path); !usable) return std::unexpected(usable.error());
  const std::optional<std::string> index = index_of(path);
  const std::string tokens = index ? fs::path(*index).replace_extension(".bin").string() : path;
  auto mapped = MappedFile::open(tokens);
  if (!mapped) return std::unexpected(mapped.error());
  TokenFile file{
      .path = tokens, .file = *std::move(mapped), .dtype = dtype.value_or(at::kUInt16), .documents = {}};
  if (Status read = read_tokens(file, index); !read) return std::unexpected(read.error());
  if (dtype && file.dtype != *dtype)
    return unusable(tokens,
                    fmt::format("its tokens are {}, as {} says, and dtype is {}", c10::toString(file.dtype),
                                index.value_or("its header"), c10::toString(*dtype)));
  if (file.documents.empty()) file.documents = {0, file.count};
  return file;
}

Expected<std::vector<std::string>> files_of_pattern(const std::string& pattern) {
  if (Status usable = check_is_path(pattern); !usable) return std::unexpected(usable.error());
  std::error_code ignored;
  if (pattern.find_first_of("*?[") == std::string::npos || fs::exists(pattern, ignored))
    return std::vector{pattern};
  glob_t found{};
  const int code = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::set<std::string> all;  // sorted by bytes, independent of the locale
  for (std::size_t i = 0; code == 0 && i < found.gl_pathc; ++i) all.emplace(found.gl_pathv[i]);
  globfree(&found);
  // The list can have a .bin file and its .idx file. Both belong together, and the .bin file stands for both.
  // So the .idx file is removed from the list.
  std::erase_if(all, [&all](const std::string& file) {
    return file.ends_with(".idx") && all.contains(file.substr(0, file.size() - 4) + ".bin");
  });
  if (all.empty()) return system_failure("cannot open " + pattern, ENOENT);
  return std::vector<std::string>(all.begin(), all.end());
}

}  // namespace muster
