#include "runtime/checkpoint/loading.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/stat.h>
#include <torch/torch.h>
#include <unistd.h>

#include "runtime/checkpoint/dtype.h"
#include "runtime/checkpoint/shared_reading.h"

namespace muster {

namespace {

Extents extents_of(at::IntArrayRef sizes) {
  return {sizes.begin(), sizes.end()};
}

std::string shape_text(const Extents& shape) {
  return c10::str(at::IntArrayRef(shape));
}

constexpr int kReaders = 4;
constexpr int kReadersPastCache = 8;            // more, because each thread waits longer for the disk
constexpr std::uint64_t kBlockBytes = 8 << 20;  // for tensors that cannot be read in place

using Request = LoadedState::Source::Request;

bool is_read_directly(const Request& request) {
  const at::Tensor& target = request.target;
  return target.is_cpu() && target.is_contiguous() && !target.is_neg() && !target.is_conj() &&
         target.scalar_type() == scalar_type_of(request.tensor->dtype);
}

// All readers of this node join one SharedReading, which this function returns. If that fails, all readers
// get an error. Then each of them reads the files by itself.
Expected<std::unique_ptr<SharedReading>> join_readers(Meeting& meeting, const std::vector<int>& readers,
                                                      std::span<const ManifestFile> files,
                                                      std::span<const PartRequest> requests) {
  const bool is_first = readers.front() == meeting.rank();
  auto reading = is_first ? SharedReading::create(files, readers.size())
                          : failure(ErrorCode::kUnavailable, "the first reader has made no memory");
  const auto addresses = meeting.exchange("memory", readers, is_first && reading ? (*reading)->address() : "",
                                          SharedReading::kPatience);
  if (!addresses) return std::unexpected(addresses.error());
  const auto place = std::ranges::find(readers, meeting.rank()) - readers.begin();
  if (!is_first && !addresses->front().empty())
    reading = SharedReading::open(addresses->front(), files, static_cast<std::size_t>(place), readers.size());
  if (reading) (*reading)->announce(requests);
  const auto there =
      meeting.exchange("readers", readers, reading ? std::to_string(getpid()) : "", SharedReading::kPatience);
  if (!there) return std::unexpected(there.error());
  std::vector<pid_t> processes;
  for (const std::string& process : *there) {
    if (process.empty()) return failure(ErrorCode::kUnavailable, "a reader cannot share the memory");
    processes.push_back(std::stoi(process));
  }
  (*reading)->watch(processes);
  return reading;
}

std::byte* bytes_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

}  // namespace

Expected<CheckpointManifest> read_contents(const CheckpointDirectory& directory, CheckpointId id) {
  auto manifest = directory.read_manifest(id);
  if (!manifest) return manifest;
  return with_contents(directory.path_of(id), *std::move(manifest), /*verified=*/true);
}

LoadedState::Source::Source(std::string a_directory, CheckpointManifest a_manifest, LoadRules the_rules)
    : directory(std::move(a_directory)), manifest(std::move(a_manifest)), rules(std::move(the_rules)) {}

std::string renamed(const std::string& name, const std::map<std::string, std::string>& rename) {
  const std::pair<const std::string, std::string>* best = nullptr;
  for (const auto& rule : rename)
    if (name.starts_with(rule.first) && (best == nullptr || rule.first.size() > best->first.size()))
      best = &rule;
  return best == nullptr ? name : best->second + name.substr(best->first.size());
}

const SavedTensor* LoadedState::Source::find(const std::string& name) const {
  const auto found = manifest.shared.tensors.find(name);
  return found == manifest.shared.tensors.end() ? nullptr : &found->second;
}

const SavedTensor* LoadedState::Source::find_own(const std::string& name) const {
  const auto rank = static_cast<std::size_t>(rules.rank);
  if (rank >= manifest.own.size()) return nullptr;
  const auto found = manifest.own[rank].tensors.find(name);
  return found == manifest.own[rank].tensors.end() ? nullptr : &found->second;
}

Status LoadedState::Source::check_files() const {
  std::set<std::uint32_t> needed;
  for (const Request& request : requests)
    for (const StoredPart& part : request.tensor->parts) needed.insert(part.file);
  for (const std::uint32_t number : needed) {
    const ManifestFile& file = manifest.files[number];
    const std::string path = directory + "/" + file.name;
    struct stat status{};
    if (stat(path.c_str(), &status) != 0) return system_failure("cannot open " + path, errno);
    if (static_cast<std::uint64_t>(status.st_size) != file.size_bytes)
      return failure(ErrorCode::kCorrupt, "cannot use {}: it has {} bytes, the manifest says {}", path,
                     status.st_size, file.size_bytes);
  }
  return {};
}

Status LoadedState::Source::read_parts_of_all(std::vector<PartRequest> parts, Meeting* meeting) const {
  if (rules.in_memory)
    return read_parts(directory, manifest.files, std::move(parts), kReaders, ReadBy::kMapping);
  if (meeting != nullptr && SharedReading::is_worth_it(manifest.files, rules.readers.size())) {
    if (auto reading = join_readers(*meeting, rules.readers, manifest.files, parts))
      return (*reading)->read(directory, std::move(parts));
  }
  const bool is_alone = rules.readers.size() == 1;
  return read_parts(directory, manifest.files, std::move(parts), is_alone ? kReadersPastCache : kReaders,
                    is_alone ? ReadBy::kDirect : ReadBy::kCache);
}

Status LoadedState::Source::fill(Meeting* meeting) const {
  std::vector<PartRequest> parts;
  for (const Request& request : requests) {
    if (!is_read_directly(request)) continue;
    auto some = requests_for(request.name, *request.tensor, request.wanted, bytes_of(request.target));
    if (!some) return std::unexpected(some.error());
    std::ranges::move(*some, std::back_inserter(parts));
  }
  if (Status read = read_parts_of_all(std::move(parts), meeting); !read) return read;
  for (const Request& request : requests) {
    if (is_read_directly(request)) continue;
    if (Status read = fill_in_blocks(request); !read) return read;
  }
  return {};
}

// Fills the target block by block. It reads a block of rows on the CPU, in the type that was saved, and
// copies the block into the target.
Status LoadedState::Source::fill_in_blocks(const Request& request) const {
  const at::Tensor& target = request.target;
  if (target.numel() == 0) return {};
  const at::NoGradGuard no_grad;
  const at::ScalarType type = *scalar_type_of(request.tensor->dtype);
  const std::int64_t rows = target.dim() == 0 ? 1 : target.size(0);
  const auto bytes = static_cast<std::uint64_t>(target.numel()) * c10::elementSize(type);
  const auto step = static_cast<std::int64_t>(
      std::max<std::uint64_t>(kBlockBytes * static_cast<std::uint64_t>(rows) / bytes, 1));
  for (std::int64_t row = 0; row < rows; row += step) {
    const bool whole = step >= rows;
    Slice wanted = request.wanted;
    if (!whole) {
      wanted.offsets[0] += row;
      wanted.sizes[0] = std::min(step, rows - row);
    }
    const at::Tensor part = whole ? target : target.narrow(0, row, wanted.sizes[0]);
    const at::Tensor block = at::empty(part.sizes(), type);
    auto parts = requests_for(request.name, *request.tensor, wanted, bytes_of(block));
    if (!parts) return std::unexpected(parts.error());
    if (Status read = read_parts(directory, manifest.files, *std::move(parts), kReaders); !read) return read;
    part.copy_(block);
  }
  return {};
}

std::vector<std::string> LoadedState::Source::left_over() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : manifest.shared.tensors)
    if (!used.contains(name)) names.push_back(name);
  return names;
}

bool LoadedState::has(const std::string& name) const {
  return source_->find(source_->name_in_checkpoint(prefix + name)) != nullptr;
}
bool LoadedState::has_own(const std::string& name) const {
  return source_->find_own(source_->name_in_checkpoint(prefix + name)) != nullptr;
}
bool LoadedState::has_value(const std::string& name) const {
  return source_->manifest.shared.values.contains(source_->name_in_checkpoint(prefix + name));
}

bool LoadedState::fill(const std::string& name, const at::Tensor& target) {
  return fill(name, target, {extents_of(target.sizes()), Extents(target.sizes().size(), 0)});
}

bool LoadedState::fill(const std::string& name, const at::Tensor& target, const TensorSlice& slice) {
  const std::string saved_name = source_->name_in_checkpoint(prefix + name);
  const SavedTensor* saved = source_->find(saved_name);
  if (saved == nullptr) {
    if (source_->rules.strict) throw NotInCheckpoint(fmt::format("it has no {}", saved_name));
    source_->missing.push_back(prefix + name);
    return false;
  }
  if (saved->shape != slice.shape)
    throw std::invalid_argument(fmt::format("its {} has the shape {}, not {}", saved_name,
                                            shape_text(saved->shape), shape_text(slice.shape)));
  const auto type = scalar_type_of(saved->dtype);
  if (!type || (*type != target.scalar_type() && !source_->rules.convert))
    throw std::invalid_argument(
        fmt::format("its {} is of the type {}, not {}", saved_name,
                    type ? std::string(c10::toString(*type)) : std::string(name_of(saved->dtype)),
                    c10::toString(target.scalar_type())));
  source_->used.insert(saved_name);
  source_->requests.push_back(
      {saved_name, saved, Slice{.offsets = slice.offsets, .sizes = extents_of(target.sizes())}, target});
  return true;
}

bool LoadedState::fill_own(const std::string& name, const at::Tensor& target) {
  const std::string saved_name = source_->name_in_checkpoint(prefix + name);
  const SavedTensor* own = source_->find_own(saved_name);
  if (own == nullptr) return fill(name, target);
  source_->used.insert(saved_name);
  const auto type = scalar_type_of(own->dtype);
  if (own->shape != extents_of(target.sizes()))
    throw std::invalid_argument(fmt::format("its {} has the shape {}, not {}", saved_name,
                                            shape_text(own->shape), c10::str(target.sizes())));
  if (!type || (*type != target.scalar_type() && !source_->rules.convert))
    throw std::invalid_argument(
        fmt::format("its {} is not of the type {}", saved_name, c10::toString(target.scalar_type())));
  source_->requests.push_back({saved_name, own, whole_of(own->shape), target});
  return true;
}

at::Tensor LoadedState::read(const std::string& name) {
  const std::string saved_name = source_->name_in_checkpoint(prefix + name);
  const SavedTensor* saved = source_->find(saved_name);
  if (saved == nullptr) throw NotInCheckpoint(fmt::format("it has no {}", saved_name));
  source_->used.insert(saved_name);
  return source_->read_now(saved_name, *saved);
}

at::Tensor LoadedState::read_own(const std::string& name) {
  const std::string saved_name = source_->name_in_checkpoint(prefix + name);
  const SavedTensor* saved = source_->find_own(saved_name);
  if (saved == nullptr) throw NotInCheckpoint(fmt::format("it has no {} for this rank", saved_name));
  return source_->read_now(saved_name, *saved);
}

at::Tensor LoadedState::Source::read_now(const std::string& name, const SavedTensor& saved) const {
  const auto type = scalar_type_of(saved.dtype);
  if (!type) throw std::invalid_argument(fmt::format("its {} is of a type that torch does not have", name));
  at::Tensor tensor = at::empty(saved.shape, *type);
  auto parts = requests_for(name, saved, whole_of(saved.shape), bytes_of(tensor));
  const Status read = parts ? read_parts(directory, manifest.files, *std::move(parts))
                            : Status(std::unexpected(parts.error()));
  if (!read) throw DamagedCheckpoint(read.error());
  return tensor;
}

std::string LoadedState::value(const std::string& name) {
  const std::string saved_name = source_->name_in_checkpoint(prefix + name);
  const auto& values = source_->manifest.shared.values;
  const auto found = values.find(saved_name);
  if (found == values.end()) throw NotInCheckpoint(fmt::format("it has no {}", saved_name));
  return found->second;
}

}  // namespace muster
