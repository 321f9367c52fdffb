// Every test runs in spawned processes, and what they find is compared there.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <muster/muster.h>

#include "tests/require.h"

namespace muster {
namespace {

// Along each dimension: the ranks that take part, and what collectives give.
void require_lines(const DeviceMesh& mesh, const std::vector<std::vector<int>>& lines) {
  const int rank = mesh.get_rank();
  for (int dim = 0; dim < mesh.ndim(); ++dim) {
    const Group group = mesh.get_group(dim);
    const std::vector<int>& line = lines[static_cast<std::size_t>(dim)];
    require(group.ranks() == line, fmt::format("ranks {} along dimension {}", group.ranks(), dim));
    require_equal(mesh.get_local_rank(dim), group.rank(), "place");
    const at::Tensor sum = at::full({3}, rank, at::kLong);
    all_reduce(group, sum);
    int expected = 0;
    for (const int each : line) expected += each;
    require_equal(sum[0].item<int>(), expected, "sum along a dimension");
    const auto all = all_gather(group, at::full({1}, rank, at::kInt));
    for (std::size_t i = 0; i < line.size(); ++i) require_equal(all[i].item<int>(), line[i], "gathered");
    const at::Tensor from_last = at::full({2}, rank);
    broadcast(group, from_last, line.back());
    require_equal(from_last[0].item<int>(), line.back(), "broadcast");
  }
}

TEST(DeviceMesh, OfTwoByTwoHasAGroupForEachRowAndColumn) {
  spawn(
      [](Job& job) {
        const auto mesh = init_device_mesh(job, {2, 2}, {"dp", "tp"});
        const int row = job.rank() / 2, column = job.rank() % 2;
        require_lines(mesh, {{column, column + 2}, {2 * row, 2 * row + 1}});
        require(mesh.get_coordinate() == std::vector{row, column}, "coordinate");
        require(mesh.shape() == std::vector{2, 2} && mesh.size() == 4 && mesh.size(1) == 2, "sizes");
        require_equal(mesh.get_local_rank("dp"), row, "local rank");
        require_equal(mesh["tp"].get_local_rank(), column, "local rank of a part");
        require(mesh["dp"].get_group().ranks() == mesh.get_group("dp").ranks(), "one group");
        require(mesh["dp"].get_group().process_group().get() == mesh.get_group(0).process_group().get(),
                "a part shares the groups");
        require_equal(mesh.get_group("tp").name(), fmt::format("tp {}", row), "name");
      },
      4);
}

TEST(DeviceMesh, OfThreeDimensionsOnEightRanks) {
  spawn(
      [](Job& job) {
        const auto mesh = init_device_mesh(job, {2, 2, 2}, {"pp", "dp", "tp"});
        const int rank = job.rank();
        const auto line = [&](int bit) { return std::vector{rank & ~bit, rank | bit}; };
        require_lines(mesh, {line(4), line(2), line(1)});
        const DeviceMesh part = mesh["pp", "tp"];
        require(part.shape() == std::vector{2, 2}, "shape");
        const int dp = rank & 2;
        require(part.ranks() == std::vector{dp, dp + 1, dp + 4, dp + 5}, fmt::format("{}", part.ranks()));
        require(part.get_coordinate() == std::vector{rank / 4, rank % 2}, "coordinate");
        require_equal(part["tp"].get_local_rank(), rank % 2, "a part of a part");
        require_equal(mesh.get_all_groups().size(), std::size_t{3}, "groups");
      },
      8);
}

TEST(DeviceMesh, MayHaveUnequalSizesAndDimensionsOfOne) {
  spawn(
      [](Job& job) {
        const auto mesh = init_device_mesh(job, {1, 3, 2});
        const int rank = job.rank();
        require_lines(mesh,
                      {{rank}, {rank % 2, rank % 2 + 2, rank % 2 + 4}, {rank / 2 * 2, rank / 2 * 2 + 1}});
        require_equal(mesh.get_group(1).name(), fmt::format("mesh_dim_1 {}", rank % 2), "name");
        const auto line = init_device_mesh(job, {6}, {"dp"});
        require(line.get_group().process_group().get() == job.process_group().get(), "the world is a line");
        job.barrier();  // rank 0 has the store
      },
      6);
}

template <class Body>
std::string refused(const Body& body) {
  try {
    body();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  throw std::runtime_error("nothing was refused");
}

TEST(DeviceMesh, RefusesWhatIsNotOneInOneLineOnAllRanks) {
  spawn(
      [](Job& job) {
        const auto of = [&](const std::vector<int>& shape, const std::vector<std::string>& names = {}) {
          return refused([&] { init_device_mesh(job, shape, names); });
        };
        require_equal(of({2, 3}), std::string("init_device_mesh: 2 x 3 is not a mesh of the job's 4 ranks"),
                      "");
        require_equal(of({}), std::string("init_device_mesh: mesh_shape is empty"), "");
        require_equal(of({4, 0}),
                      std::string("init_device_mesh: a dimension has the size 0; it must be 1 or more"), "");
        require_equal(of({2, 2}, {"dp"}), std::string("init_device_mesh: 1 names are given for 2 dimensions"),
                      "");
        require_equal(of({2, 2}, {"dp", "dp"}), std::string("init_device_mesh: the name 'dp' is given twice"),
                      "");
        require(of(job.rank() == 3 ? std::vector{4, 1} : std::vector{2, 2})
                    .starts_with("init_device_mesh: ranks call it with different arguments: rank "),
                "different shapes");
        const auto mesh = init_device_mesh(job, {2, 2}, {"dp", "tp"});
        const auto text = [&](const auto& body) { return refused([&] { body(); }); };
        require_equal(text([&] { mesh.get_group("pp"); }),
                      std::string("DeviceMesh: 'pp' is not a dimension; the dimensions are dp, tp"), "");
        require_equal(text([&] { mesh.get_group(2); }),
                      std::string("DeviceMesh: dimension 2 must be from 0 to 1"), "");
        require_equal(text([&] { mesh.get_local_rank(); }),
                      std::string("DeviceMesh: get_local_rank() needs a dimension: the mesh has 2"), "");
        require_equal(text([&] { (void)mesh["tp", "dp"]; }),
                      std::string("DeviceMesh: tp, dp are not in the order of the mesh, which is dp, tp"),
                      "");
        job.barrier();  // who leaves sooner may break the connection that another is making
      },
      4);
}

}  // namespace
}  // namespace muster
