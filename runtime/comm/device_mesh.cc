#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muster/comm/device_mesh.h>
#include <muster/comm/job.h>
#include <stdexcept>

#include "runtime/comm/formation.h"

namespace muster {

struct DeviceMesh::State {
  std::vector<int> shape;
  std::vector<std::string> names;  // one per dimension, or none
  std::vector<int> ranks;          // in row-major order
  std::vector<int> coordinate;     // this rank's
  std::vector<Group> groups;       // this rank's group for each dimension
  int rank = 0;

  std::size_t only_dimension(const char* function) const {
    if (shape.size() != 1)
      throw std::invalid_argument(
          fmt::format("DeviceMesh: {}() needs a dimension: the mesh has {}", function, shape.size()));
    return 0;
  }
  std::size_t dimension(int dim) const {
    if (dim < 0 || dim >= std::ssize(shape))
      throw std::invalid_argument(
          fmt::format("DeviceMesh: dimension {} must be from 0 to {}", dim, shape.size() - 1));
    return static_cast<std::size_t>(dim);
  }
  std::size_t dimension(const std::string& name) const {
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      throw std::invalid_argument(
          fmt::format("DeviceMesh: '{}' is not a dimension; {}", name,
                      names.empty() ? "the dimensions have no names"
                                    : fmt::format("the dimensions are {}", fmt::join(names, ", "))));
    return static_cast<std::size_t>(found - names.begin());
  }
};

namespace {

int product_of(const std::vector<int>& sizes) {
  int product = 1;
  for (const int size : sizes) product *= size;
  return product;
}

std::vector<int> coordinate_of(int place, const std::vector<int>& shape) {
  std::vector<int> coordinate(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0; place /= shape[dim]) coordinate[dim] = place % shape[dim];
  return coordinate;
}

int place_of(const std::vector<int>& coordinate, const std::vector<int>& shape) {
  int place = 0;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) place = place * shape[dim] + coordinate[dim];
  return place;
}

std::string refusal_of(const Job& job, const std::vector<int>& shape, const std::vector<std::string>& names) {
  if (shape.empty()) return "mesh_shape is empty";
  std::int64_t count = 1;
  for (const int size : shape) {
    if (size < 1) return fmt::format("a dimension has the size {}; it must be 1 or more", size);
    count = std::min<std::int64_t>(count * size, std::int64_t{1} << 31);
  }
  if (count != job.world_size())
    return fmt::format("{} is not a mesh of the job's {} ranks", fmt::join(shape, " x "), job.world_size());
  if (names.empty()) return "";
  if (names.size() != shape.size())
    return fmt::format("{} names are given for {} dimensions", names.size(), shape.size());
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    return fmt::format("the name '{}' is given twice", *twice);
  return "";
}

}  // namespace

DeviceMesh init_device_mesh(const Job& job, const std::vector<int>& mesh_shape,
                            const std::vector<std::string>& mesh_dim_names) {
  const int number = agree_to_form(
      job, {.function = "init_device_mesh",
            .text = fmt::format("{} ({})", fmt::join(mesh_shape, " x "), fmt::join(mesh_dim_names, ", ")),
            .refusal = refusal_of(job, mesh_shape, mesh_dim_names)});
  auto state = std::make_shared<DeviceMesh::State>();
  state->shape = mesh_shape;
  state->names = mesh_dim_names;
  state->rank = job.rank();
  state->coordinate = coordinate_of(job.rank(), mesh_shape);
  for (int rank = 0; rank < job.world_size(); ++rank) state->ranks.push_back(rank);
  for (std::size_t dim = 0; dim < mesh_shape.size(); ++dim) {
    std::vector<int> line, others = state->coordinate;
    for (others[dim] = 0; others[dim] < mesh_shape[dim]; ++others[dim])
      line.push_back(place_of(others, mesh_shape));
    others[dim] = 0;
    // The mesh has several lines of ranks along this dimension. `index` is the number of this rank's line. It
    // is the place of the line in a mesh that has all other dimensions.
    std::vector<int> rest = mesh_shape;
    rest[dim] = 1;
    const int index = place_of(others, rest);
    const std::string name = mesh_dim_names.empty() ? fmt::format("mesh_dim_{}", dim) : mesh_dim_names[dim];
    if (std::cmp_equal(line.size(), job.world_size()) && mesh_shape.size() == 1) {
      state->groups.push_back(job.world());
      continue;
    }
    state->groups.push_back(form_group(job, std::move(line), fmt::format("mesh-{}-{}-{}", number, dim, index),
                                       {.name = fmt::format("{} {}", name, index)}));
  }
  return DeviceMesh(std::move(state));
}

DeviceMesh DeviceMesh::slice(const std::vector<std::string>& names) const {
  std::vector<std::size_t> dims;
  for (const std::string& name : names) dims.push_back(state_->dimension(name));
  if (std::ranges::adjacent_find(dims, std::ranges::greater_equal()) != dims.end())
    throw std::invalid_argument(fmt::format("DeviceMesh: {} are not in the order of the mesh, which is {}",
                                            fmt::join(names, ", "), fmt::join(state_->names, ", ")));
  auto part = std::make_shared<State>();
  part->rank = state_->rank;
  for (const std::size_t dim : dims) {
    part->shape.push_back(state_->shape[dim]);
    part->names.push_back(state_->names[dim]);
    part->coordinate.push_back(state_->coordinate[dim]);
    part->groups.push_back(state_->groups[dim]);
  }
  std::vector<int> there = state_->coordinate;
  for (int place = 0; place < product_of(part->shape); ++place) {
    const auto coordinate = coordinate_of(place, part->shape);
    for (std::size_t i = 0; i < dims.size(); ++i) there[dims[i]] = coordinate[i];
    part->ranks.push_back(state_->ranks[static_cast<std::size_t>(place_of(there, state_->shape))]);
  }
  return DeviceMesh(std::move(part));
}

int DeviceMesh::ndim() const {
  return static_cast<int>(state_->shape.size());
}
const std::vector<int>& DeviceMesh::shape() const {
  return state_->shape;
}
const std::vector<std::string>& DeviceMesh::mesh_dim_names() const {
  return state_->names;
}
int DeviceMesh::size() const {
  return product_of(state_->shape);
}
int DeviceMesh::size(int dim) const {
  return state_->shape[state_->dimension(dim)];
}
const std::vector<int>& DeviceMesh::ranks() const {
  return state_->ranks;
}
int DeviceMesh::get_rank() const {
  return state_->rank;
}
int DeviceMesh::get_local_rank() const {
  return state_->coordinate[state_->only_dimension("get_local_rank")];
}
int DeviceMesh::get_local_rank(int dim) const {
  return state_->coordinate[state_->dimension(dim)];
}
int DeviceMesh::get_local_rank(const std::string& name) const {
  return state_->coordinate[state_->dimension(name)];
}
std::vector<int> DeviceMesh::get_coordinate() const {
  return state_->coordinate;
}
Group DeviceMesh::get_group() const {
  return state_->groups[state_->only_dimension("get_group")];
}
Group DeviceMesh::get_group(int dim) const {
  return state_->groups[state_->dimension(dim)];
}
Group DeviceMesh::get_group(const std::string& name) const {
  return state_->groups[state_->dimension(name)];
}
std::vector<Group> DeviceMesh::get_all_groups() const {
  return state_->groups;
}

}  // namespace muster
