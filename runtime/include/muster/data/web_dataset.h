// Samples from tar archives, which are read from front to back, as by the WebDataset library. Consecutive
// files make one sample if their names are equal up to the first dot.
//
//   const muster::WebDataset images({"train-{000000..000146}.tar"}, [](const muster::WebSample& sample) {
//     return muster::Example{.data = muster::decode_image(sample.bytes("jpg")),
//                            .target = at::scalar_tensor(sample.number("cls"))};
//   });
//   muster::DataLoader loader(images, {.batch_size = 64, .num_workers = 4}, job);
//
// A WebDataset is an IterableDataset: with `count` shards, shard `i % count` reads archive number i. There
// must not be more shards than archives with samples. `decode` makes the sample; several threads call it at
// once. Archives may be compressed with gzip or zstd. Readers ignore hidden files, everything but regular
// files, and files whose name or first folder begins and ends with two underscores. They fill the holes of
// sparse files with zeros.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <muster/data/iterable_dataset.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

struct WebSample {
  std::string key;      // "images/000123"; WebDataset's __key__
  std::string archive;  // the archive's name; __url__
  // The contents of the sample's files. The key is the part of a file's name after the first dot, in lower
  // case: "jpg", "seg.png".
  std::map<std::string, std::string> parts;

  // If the sample has no such part, or if the part does not have the format that the function reads, the
  // function throws an error that names the sample and its parts.
  std::string_view text(const std::string& part) const;
  std::span<const std::uint8_t> bytes(const std::string& part) const;
  std::int64_t number(const std::string& part) const;
  at::Tensor array(const std::string& part) const;  // of an .npy, with its type and shape
  std::map<std::string, at::Tensor> arrays(const std::string& part) const;  // of an .npz, by name
  // Returns the value of `key` in a .json part. `key` is a name, such as "caption", or a path, such as
  // "/boxes/0/label" (RFC 6901). For true the function returns 1, for false 0. For a whole number of 2^53 or
  // more it throws, because a double cannot hold all of them.
  double json_number(const std::string& part, const std::string& key) const;
  std::string json_text(const std::string& part, const std::string& key) const;
};

// The options have WebDataset's names.
struct WebDatasetOptions {
  bool shardshuffle = false;  // read the archives in another order in every epoch
  // The number of samples in a buffer. Each sample that the dataset returns is drawn at random from the
  // buffer. 0: samples are returned in the order of the archives. If there is a buffer, a run that resumes
  // must read the consumed samples again. Without a buffer, it skips them.
  std::int64_t shuffle = 0;
};

namespace detail {

// Returns the names of the archives. A name such as "{000..146}" stands for all numbers from 000 to 146, and
// "{train,more}" for both words. A name can contain several such braces. Throws std::invalid_argument, which
// says what is wrong.
std::vector<std::string> expand_archives(const std::vector<std::string>& names,
                                         const WebDatasetOptions& options);
// Call it only in an exception handler. Throws an error that names the sample and has the handled exception
// nested in it.
[[noreturn]] void rethrow_undecoded(const std::string& key, const std::string& archive);
std::string name_of_archives(const std::vector<std::string>& archives);

class WebStream {
 public:
  WebStream(const std::vector<std::string>& archives, const WebDatasetOptions& options, const Shard& shard);
  WebStream(const WebStream&) = delete;
  WebStream& operator=(const WebStream&) = delete;
  ~WebStream();

  // Returns the next sample, or nothing at the end. If an archive is damaged, throws an error; the next call
  // then continues with the next archive.
  std::optional<WebSample> next();
  bool skip(std::int64_t count);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

template <class Decode>
class WebDataset
    : public IterableDataset<std::remove_cvref_t<std::invoke_result_t<const Decode&, WebSample>>> {
  using Base = IterableDataset<std::remove_cvref_t<std::invoke_result_t<const Decode&, WebSample>>>;

 public:
  using typename Base::Reader;
  using typename Base::Sample;

  // If a name or an option cannot be used, throws std::invalid_argument. If the first name is not an archive,
  // for example if it is a URL, throws std::runtime_error. Readers open the other archives only when they
  // reach them.
  WebDataset(const std::vector<std::string>& archives, Decode decode, WebDatasetOptions options = {})
      : archives_(detail::expand_archives(archives, options)),
        decode_(std::move(decode)),
        options_(options) {}

  std::unique_ptr<Reader> open(const Shard& shard) const override {
    return std::make_unique<Reading>(*this, shard);
  }
  std::string name() const override { return detail::name_of_archives(archives_); }

 private:
  class Reading : public Reader {
   public:
    Reading(const WebDataset& dataset, const Shard& shard)
        : decode_(dataset.decode_), stream_(dataset.archives_, dataset.options_, shard) {}
    std::optional<Sample> next() override {
      std::optional<WebSample> sample = stream_.next();
      if (!sample) return std::nullopt;
      const std::string key = sample->key, archive = sample->archive;
      try {
        return decode_(*std::move(sample));
      } catch (const std::exception&) {
        detail::rethrow_undecoded(key, archive);
      }
    }
    bool skip(std::int64_t count) override { return stream_.skip(count); }

   private:
    const Decode& decode_;
    detail::WebStream stream_;
  };

  std::vector<std::string> archives_;
  Decode decode_;
  WebDatasetOptions options_;
};

}  // namespace muster
