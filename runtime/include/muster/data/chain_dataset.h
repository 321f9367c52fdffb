// Iterable datasets, one after the other: each shard has the first dataset's samples, then the second's, and
// so on.
//
//   const muster::ChainDataset both(first, second);
//
// It is like torch.utils.data.ChainDataset. A reader opens a dataset when the previous one has ended. The
// datasets must outlive the ChainDataset.
#pragma once

#include <memory>
#include <muster/data/iterable_dataset.h>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster {

template <class Sample>
class ChainDataset : public IterableDataset<Sample> {
  using typename IterableDataset<Sample>::Reader;

 public:
  explicit ChainDataset(std::vector<const IterableDataset<Sample>*> datasets)
      : datasets_(std::move(datasets)) {}
  template <class... More>
  explicit ChainDataset(const IterableDataset<Sample>& first, const IterableDataset<Sample>& second,
                        const More&... more)
      : ChainDataset(std::vector<const IterableDataset<Sample>*>{&first, &second, &more...}) {}
  template <class... More>
  explicit ChainDataset(const IterableDataset<Sample>&&, More&&...) = delete;
  template <class... More>
  explicit ChainDataset(const IterableDataset<Sample>&, const IterableDataset<Sample>&&, More&&...) = delete;

  std::unique_ptr<Reader> open(const Shard& shard) const override {
    return std::make_unique<Reading>(datasets_, shard);
  }
  std::string name() const override {
    std::string all;
    for (const IterableDataset<Sample>* dataset : datasets_)
      all += (all.empty() ? "" : " + ") + dataset->name();
    return all;
  }

 private:
  class Reading : public Reader {
   public:
    Reading(const std::vector<const IterableDataset<Sample>*>& datasets, const Shard& shard)
        : datasets_(datasets), shard_(shard) {}
    std::optional<Sample> next() override {
      for (; number_ < datasets_.size(); ++number_) {
        if (!reader_) reader_ = datasets_[number_]->open(shard_);
        if (!reader_) throw std::runtime_error(datasets_[number_]->name() + ": open() returned no reader");
        if (std::optional<Sample> sample = reader_->next()) return sample;
        reader_.reset();
      }
      return std::nullopt;
    }

   private:
    const std::vector<const IterableDataset<Sample>*>& datasets_;
    const Shard shard_;
    std::size_t number_ = 0;
    std::unique_ptr<Reader> reader_;
  };

  std::vector<const IterableDataset<Sample>*> datasets_;
};

template <class First, class... More>
ChainDataset(const First&, const More&...) -> ChainDataset<typename First::Sample>;

}  // namespace muster
