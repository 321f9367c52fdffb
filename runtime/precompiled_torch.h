// Include this file only in the precompiled header of torch. torch's headers use virtual functions of the
// class templates below. Unless the precompiled header calls the functions, Clang instantiates them in each
// file that uses the precompiled header. That takes two seconds a file. Compile an empty file with
// -ftime-trace to see which functions Clang still instantiates in it (PerformPendingInstantiations).
#pragma once

#ifdef __clang__
#include <torch/torch.h>

namespace muster::detail {

template <class Module>
void copy_module() {
  auto* module = static_cast<Module*>(nullptr);
  *module = *std::dynamic_pointer_cast<Module>(module->torch::nn::template Cloneable<Module>::clone());
}

template <class... Modules>
void copy_modules() {
  (copy_module<Modules>(), ...);
}

template <class... Convolutions>
void reset_convolutions(std::ostream& out) {
  ((static_cast<Convolutions*>(nullptr)->Convolutions::reset(),
    static_cast<const Convolutions*>(nullptr)->Convolutions::pretty_print(out)),
   ...);
}

template <class Base, class... Copied>
void copy_all() {
  (static_cast<void>(std::unique_ptr<Base>(std::make_unique<Copied>(*static_cast<const Copied*>(nullptr)))),
   ...);
}

template <class... Types>
bool compare_types(const c10::Type& other) {
  return (
      ... &&
      static_cast<const Types*>(nullptr)->c10::template SingleElementType<Types::Kind, Types>::equals(other));
}

// Nothing calls this function, so no program contains it. It calls functions in the form
// `object->Class::function()`, for which the compiler must instantiate the function. A virtual call would
// instantiate nothing.
inline void use_torch(std::ostream& out, const c10::Type& type) {
  using namespace torch::nn;
  copy_modules<ModuleDictImpl, ParameterDictImpl, SequentialImpl, LinearImpl, UnflattenImpl, BilinearImpl,
               SoftmaxImpl, SoftminImpl, LogSoftmaxImpl, ThresholdImpl, MultiheadAttentionImpl,
               AdaptiveLogSoftmaxWithLossImpl, Conv1dImpl, Conv2dImpl, Conv3dImpl, ConvTranspose1dImpl,
               ConvTranspose2dImpl, ConvTranspose3dImpl, EmbeddingImpl, EmbeddingBagImpl, FoldImpl,
               UnfoldImpl, LayerNormImpl, LocalResponseNormImpl, CrossMapLRN2dImpl, GroupNormImpl,
               FractionalMaxPool2dImpl, FractionalMaxPool3dImpl, RNNImpl, LSTMImpl, GRUImpl, RNNCellImpl,
               LSTMCellImpl, GRUCellImpl, TransformerEncoderLayerImpl, TransformerDecoderLayerImpl,
               TransformerEncoderImpl, TransformerDecoderImpl>();
  reset_convolutions<ConvNdImpl<1, Conv1dImpl>, ConvNdImpl<2, Conv2dImpl>, ConvNdImpl<3, Conv3dImpl>,
                     ConvNdImpl<1, ConvTranspose1dImpl>, ConvNdImpl<2, ConvTranspose2dImpl>,
                     ConvNdImpl<3, ConvTranspose3dImpl>>(out);
  using namespace torch::optim;
  copy_all<OptimizerParamState, AdagradParamState, AdamParamState, AdamWParamState, LBFGSParamState,
           RMSpropParamState, SGDParamState>();
  copy_all<OptimizerOptions, AdagradOptions, AdamOptions, AdamWOptions, LBFGSOptions, RMSpropOptions,
           SGDOptions>();
  compare_types<c10::ListType, c10::FutureType, c10::AwaitType, c10::RRefType>(type);
  using Numbers = torch::jit::VectorAttributeValue<c10::complex<double>, torch::jit::AttributeKind::cs>;
  static_cast<void>(static_cast<const Numbers*>(nullptr)->Numbers::clone());
  using Types = torch::jit::VectorAttributeValue<c10::TypePtr, torch::jit::AttributeKind::tys>;
  static_cast<void>(static_cast<const Types*>(nullptr)->Types::clone());
  using namespace torch::data;
  using Images = datasets::Dataset<datasets::MNIST>;
  static_cast<void>(static_cast<Images*>(nullptr)->Images::get_batch({}));
  using Tensors = datasets::Dataset<datasets::TensorDataset, TensorExample>;
  static_cast<void>(static_cast<Tensors*>(nullptr)->Tensors::get_batch({}));
}

}  // namespace muster::detail
#endif
