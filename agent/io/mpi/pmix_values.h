// Converts the PMIx library's values to C++: status, attributes, packed values.
//
// For the module only. Any thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <pmix.h>
#include <string>
#include <vector>

#include "common/base/error.h"

namespace muster::agent {

inline bool succeeded(pmix_status_t status) {
  return status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED;
}

inline Status checked(pmix_status_t status, const char* what) {
  if (succeeded(status)) return {};
  return failure(ErrorCode::kInternal, "PMIx: {}: {}", what, PMIx_Error_string(status));
}

// A list of attributes for the PMIx library. The destructor frees it.
class Infos {
 public:
  Infos() = default;
  Infos(const Infos&) = delete;
  Infos& operator=(const Infos&) = delete;
  ~Infos() {
    for (pmix_info_t& each : infos_) PMIX_INFO_DESTRUCT(&each);
  }
  void add(const char* key, const void* value, pmix_data_type_t type) {
    pmix_info_t info;
    PMIX_INFO_CONSTRUCT(&info);
    PMIX_INFO_LOAD(&info, key, value, type);
    infos_.push_back(info);
  }
  void add_text(const char* key, const std::string& value) { add(key, value.c_str(), PMIX_STRING); }
  void add_number(const char* key, std::uint32_t value) { add(key, &value, PMIX_UINT32); }
  void add_rank(const char* key, pmix_rank_t value) { add(key, &value, PMIX_PROC_RANK); }
  void add_infos(const char* key, const Infos& within) {
    pmix_data_array_t array;
    PMIX_DATA_ARRAY_CONSTRUCT(&array, within.infos_.size(), PMIX_INFO);
    auto* const copies = static_cast<pmix_info_t*>(array.array);
    for (std::size_t i = 0; i < within.infos_.size(); ++i) PMIX_INFO_XFER(&copies[i], &within.infos_[i]);
    add(key, &array, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_DESTRUCT(&array);
  }
  pmix_info_t* data() { return infos_.data(); }
  std::size_t size() const { return infos_.size(); }

 private:
  std::vector<pmix_info_t> infos_;
};

// Packs a value of any type into bytes in the library's format.
inline std::optional<std::string> packed(const pmix_value_t& value) {
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  pmix_value_t copy = value;
  std::optional<std::string> bytes;
  if (succeeded(PMIx_Data_pack(nullptr, &buffer, &copy, 1, PMIX_VALUE)))
    bytes.emplace(buffer.base_ptr, buffer.bytes_used);
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
  return bytes;
}

inline bool unpack(const std::string& bytes, pmix_value_t& value) {
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  buffer.base_ptr = static_cast<char*>(std::malloc(std::max<std::size_t>(bytes.size(), 1)));
  std::memcpy(buffer.base_ptr, bytes.data(), bytes.size());
  buffer.unpack_ptr = buffer.base_ptr;
  buffer.pack_ptr = buffer.base_ptr + bytes.size();
  buffer.bytes_allocated = buffer.bytes_used = bytes.size();
  std::int32_t count = 1;
  const bool ok = succeeded(PMIx_Data_unpack(nullptr, &buffer, &value, &count, PMIX_VALUE));
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
  return ok;
}

// Returns the time limit of a fence, connect or disconnect. Returns nothing if the ranks gave no limit.
inline std::optional<std::chrono::seconds> limit_in(const pmix_info_t* infos, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (PMIX_CHECK_KEY(&infos[i], PMIX_TIMEOUT) &&
        (infos[i].value.type == PMIX_INT || infos[i].value.type == PMIX_UINT32) &&
        infos[i].value.data.integer > 0)
      return std::chrono::seconds(infos[i].value.data.integer);
  return {};
}

}  // namespace muster::agent
