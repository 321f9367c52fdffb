// The ranks of a job as a grid, with a group for each row and each column, in any number of dimensions:
// PyTorch's DeviceMesh.
//
//   const auto mesh = muster::init_device_mesh(job, {2, 4}, {"dp", "tp"});
//   auto model = muster::DistributedDataParallel(net, mesh.get_group("dp"));
//   muster::all_reduce(mesh.get_group("tp"), partial);
//
// Ranks are in row-major order: along the last dimension they are consecutive. Ranks are numbered node by
// node. If the last dimension has the size of a node's ranks, each of its groups is on one node. Use this
// dimension for the operations that communicate most. A mesh is a handle: copies share one state, which keeps
// the groups and the job. Any thread can use it.
#pragma once

#include <memory>
#include <muster/comm/group.h>
#include <string>
#include <utility>
#include <vector>

namespace muster {

class DeviceMesh {
 public:
  struct State;
  explicit DeviceMesh(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  // Returns a mesh that has only the dimensions `names`. Its ranks have the same place as this rank along all
  // other dimensions. The returned mesh uses the same groups as this mesh. Names must be in the order of the
  // mesh. Throws std::invalid_argument for an unknown name.
  template <class... Names>
  DeviceMesh operator[](const Names&... names) const {
    return slice({names...});
  }

  int ndim() const;
  const std::vector<int>& shape() const;
  const std::vector<std::string>& mesh_dim_names() const;
  int size() const;         // ranks
  int size(int dim) const;  // along one dimension
  // The ranks, in row-major order.
  const std::vector<int>& ranks() const;

  int get_rank() const;  // this rank in the job
  // Returns this rank's place along a dimension. The first form is for a mesh with a single dimension.
  int get_local_rank() const;
  int get_local_rank(int dim) const;
  int get_local_rank(const std::string& name) const;
  std::vector<int> get_coordinate() const;  // this rank's place along each dimension

  // Returns the group of this rank along a dimension: the ranks with the same place in all other dimensions.
  // Messages name the groups along the dimension "dp": "dp 0", "dp 1" and so on. Without an argument the mesh
  // must have only one dimension.
  Group get_group() const;
  Group get_group(int dim) const;
  Group get_group(const std::string& name) const;
  std::vector<Group> get_all_groups() const;  // one for each dimension

 private:
  DeviceMesh slice(const std::vector<std::string>& names) const;
  std::shared_ptr<const State> state_;
};

// Collective over the job. All ranks throw std::invalid_argument if the product of the sizes is not the world
// size, if names are missing or occur twice, or if ranks pass different arguments.
DeviceMesh init_device_mesh(const Job& job, const std::vector<int>& mesh_shape,
                            const std::vector<std::string>& mesh_dim_names = {});

}  // namespace muster
