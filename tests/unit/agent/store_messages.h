// Commands of a c10d client as bytes, and the answers of a store, for tests.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "agent/core/store/store.h"

namespace muster::agent {

template <class Number>
std::string raw(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
inline std::string blob(std::string_view bytes) {
  return raw<std::uint64_t>(bytes.size()) + std::string(bytes);
}

// The command and its fields, unchanged; keys and values among them as blobs.
inline std::string command(StoreCommand name, std::initializer_list<std::string_view> blobs = {}) {
  std::string bytes(1, static_cast<char>(name));
  for (const std::string_view bytes_of_one : blobs) bytes += blob(bytes_of_one);
  return bytes;
}
inline std::string counted(StoreCommand name, std::initializer_list<std::string_view> blobs,
                           std::uint64_t count) {
  std::string bytes = command(name) + raw(count);
  for (const std::string_view bytes_of_one : blobs) bytes += blob(bytes_of_one);
  return bytes;
}
inline std::string keys(StoreCommand name, std::initializer_list<std::string_view> names) {
  return counted(name, names, names.size());
}

inline std::string validate() {
  return command(StoreCommand::kValidate) + raw(kStoreMagic);
}
inline std::string ping(std::uint32_t nonce) {
  return command(StoreCommand::kPing) + raw(nonce);
}
inline std::string set(std::string_view key, std::string_view value) {
  return command(StoreCommand::kSet, {key, value});
}
inline std::string get(std::string_view key) {
  return command(StoreCommand::kGet, {key});
}
inline std::string add(std::string_view key, std::int64_t delta) {
  return command(StoreCommand::kAdd, {key}) + raw(delta);
}
inline std::string wait(std::initializer_list<std::string_view> names) {
  return keys(StoreCommand::kWait, names);
}
inline std::string barrier(std::string_view key, std::int64_t world_size) {
  return command(StoreCommand::kBarrier, {key}) + raw(world_size);
}
inline std::string check(std::initializer_list<std::string_view> names) {
  return keys(StoreCommand::kCheck, names);
}
inline std::string push(std::string_view key, std::string_view value) {
  return command(StoreCommand::kQueuePush, {key, value});
}
inline std::string pop(std::string_view key) {
  return command(StoreCommand::kQueuePop, {key});
}

}  // namespace muster::agent
