// Samples that datasets may and may not have; sample_types.py compiles one after the other.
#include <muster/data/dataset.h>

#if SAMPLE == 0  // may be one
struct Sample {
  at::Tensor x;
  float y;
};
struct SampleBatch {
  at::Tensor x;
  at::Tensor y;
};
template <>
struct muster::BatchOf<Sample> {
  using type = SampleBatch;
};

#elif SAMPLE == 1  // its batch is another struct
struct Sample {
  at::Tensor x;
  float y;
};

#elif SAMPLE == 2  // a constructor
struct Sample {
  Sample(at::Tensor data, at::Tensor label) : x(std::move(data)), y(std::move(label)) {}
  at::Tensor x;
  at::Tensor y;
};

#elif SAMPLE == 3  // the same within a sample
struct Label {
  explicit Label(int the_number) : number(the_number) {}
  int number;
};
using Sample = std::pair<at::Tensor, std::vector<Label>>;

#elif SAMPLE == 4  // BatchOf names a struct that does not fit
struct Sample {
  at::Tensor x;
  std::string y;
};
struct SampleBatch {
  at::Tensor x;
  std::string y;
};
template <>
struct muster::BatchOf<Sample> {
  using type = SampleBatch;
};

#elif SAMPLE == 5
enum class Sample { kCat, kDog };
#endif

struct Samples : muster::Dataset<Sample> {
  std::int64_t size() const override { return 1; }
  Sample get(std::int64_t /*index*/) const override { throw 0; }
};

std::int64_t size() {
  return Samples().size();
}
