// Samples out of tar archives, read from front to end, as the WebDataset library has them: a sample is the
// files that follow one another under one name, up to its first dot.
//
//   const muster::WebDataset images({"train-{000000..000146}.tar"}, [](const muster::WebSample& sample) {
//     return muster::Example{.data = muster::decode_image(sample.bytes("jpg")),
//                            .target = at::scalar_tensor(sample.number("cls"))};
//   });
//   muster::DataLoader loader(images, {.batch_size = 64, .num_workers = 4}, job);
//
// A stream: each shard of it (muster/data/iterable_dataset.h) reads archives of its own, number i of n
// archives the shard i % count; no more shards than archives have samples. `decode` makes the sample, and is
// called by several threads at once. Archives may be compressed by gzip or zstd; only regular files count
// (sparse ones whole), no hidden ones, and none whose name, or whose folder at the front, begins and ends
// with two underscores.
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
  std::string key;                           // "images/000123"; WebDataset's __key__
  std::string archive;                       // where it is from; __url__
  std::map<std::string, std::string> parts;  // by the rest of the name, in lower case: "jpg", "seg.png"

  // What they throw, if there is no such part or no number, names the sample, and which parts there are.
  std::string_view text(const std::string& part) const;
  std::span<const std::uint8_t> bytes(const std::string& part) const;
  std::int64_t number(const std::string& part) const;
  at::Tensor array(const std::string& part) const;  // of an .npy: of its type and shape
  std::map<std::string, at::Tensor> arrays(const std::string& part) const;  // of an .npz, by their names
  // What `key` has in a .json: "caption" or, deeper, "/boxes/0/label" (RFC 6901). True and false are 1 and 0;
  // a whole number of 2^53 or more is refused.
  double json_number(const std::string& part, const std::string& key) const;
  std::string json_text(const std::string& part, const std::string& key) const;
};

// WebDataset's.
struct WebDatasetOptions {
  bool shardshuffle = false;  // the archives come in another order in every epoch
  // The next sample is drawn from so many that are held. 0: in order. A run that goes on then reads what was
  // read before, where it otherwise passes over it.
  std::int64_t shuffle = 0;
};

namespace detail {

// With "{000..146}" for all numbers from 000 to 146 and "{train,more}" for both words, several of them in a
// name as well. std::invalid_argument says what is wrong.
std::vector<std::string> expand_archives(const std::vector<std::string>& names,
                                         const WebDatasetOptions& options);
// Called while an exception is handled: throws what names the sample, with the exception nested in it.
[[noreturn]] void rethrow_undecoded(const std::string& key, const std::string& archive);
std::string name_of_archives(const std::vector<std::string>& archives);

class WebStream {
 public:
  WebStream(const std::vector<std::string>& archives, const WebDatasetOptions& options, const Shard& shard);
  WebStream(const WebStream&) = delete;
  WebStream& operator=(const WebStream&) = delete;
  ~WebStream();

  // After what it throws of an archive that is damaged, the next archive comes.
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

  // std::invalid_argument says what does not fit; std::runtime_error that the first archive is something
  // else, such as an address. Archives are opened when their turn comes.
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
