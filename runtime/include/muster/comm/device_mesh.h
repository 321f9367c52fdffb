// The ranks of a job in rows and columns, or more dimensions, with a group for each line: PyTorch's
// DeviceMesh.
//
//   const auto mesh = muster::init_device_mesh(job, {2, 4}, {"dp", "tp"});
//   auto model = muster::DistributedDataParallel(net, mesh.get_group("dp"));
//   muster::all_reduce(mesh.get_group("tp"), partial);
//
// Ranks lie in row-major order: along the last dimension they are consecutive. Ranks are numbered node by
// node, so a last dimension as long as a node has ranks stays within nodes; give it what communicates most.
// A mesh is a handle: copies share one state, which keeps the groups and the job. Safe from any thread.
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

  // The mesh of some of its dimensions that this rank is in, which shares their groups. Names in the order of
  // the mesh; std::invalid_argument names one that it has not.
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

  int get_rank() const;  // in the job
  // This rank's place along a dimension; without one the mesh must have only that.
  int get_local_rank() const;
  int get_local_rank(int dim) const;
  int get_local_rank(const std::string& name) const;
  std::vector<int> get_coordinate() const;  // along each

  // The ranks along a dimension that share this rank's place in all others; in messages "dp 1" is the second
  // one. Without a dimension the mesh must have only one.
  Group get_group() const;
  Group get_group(int dim) const;
  Group get_group(const std::string& name) const;
  std::vector<Group> get_all_groups() const;  // of each dimension

 private:
  DeviceMesh slice(const std::vector<std::string>& names) const;
  std::shared_ptr<const State> state_;
};

// Collective over the job. std::invalid_argument, the same on all ranks, if the sizes are not those of the
// job, names are missing or given twice, or ranks call it with different arguments.
DeviceMesh init_device_mesh(const Job& job, const std::vector<int>& mesh_shape,
                            const std::vector<std::string>& mesh_dim_names = {});

}  // namespace muster
