//===- MergeDims.cpp - fewer dimensions for a library call ----------------===//
//
// See LibraryCall.h.
//
//===----------------------------------------------------------------------===//
#include "LibraryCall.h"

using namespace mlir;
using namespace kerf;

void kerf::mergeDims(LibraryCall &call) {
  struct Tensor {
    StridedView *view;
    bool hasM, hasN;
  };
  SmallVector<Tensor> tensors = {{&call.lhs, true, false},
                                 {&call.rhs, false, true},
                                 {&call.dst, true, true}};
  for (PostOp &post : call.postOps)
    if (post.operand)
      tensors.push_back({&*post.operand, true, true});
  auto erase = [&](size_t d) {
    for (Tensor &tensor : tensors) {
      tensor.view->strides.erase(tensor.view->strides.begin() + d);
      tensor.view->sizes.erase(tensor.view->sizes.begin() + d);
    }
    call.batch.erase(call.batch.begin() + d);
  };
  for (size_t d = call.batch.size(); d-- > 0;)
    if (call.batch[d] == 1)
      erase(d);
  for (size_t d = call.batch.size(); d-- > 1;) {
    if (!llvm::all_of(tensors, [&](Tensor &tensor) {
          return tensor.view->strides[d - 1] ==
                 tensor.view->strides[d] * call.batch[d];
        }))
      continue;
    int64_t size = call.batch[d - 1] * call.batch[d];
    for (Tensor &tensor : tensors) {
      tensor.view->strides[d - 1] = tensor.view->strides[d];
      tensor.view->sizes[d - 1] = size;
    }
    erase(d);
    call.batch[d - 1] = size;
  }
  while (!call.batch.empty()) {
    size_t d = call.batch.size() - 1;
    bool merges =
        call.rhs.strides[d] == 0 && llvm::all_of(tensors, [&](Tensor &tensor) {
          return !tensor.hasM || call.m == 1 ||
                 tensor.view->strides[d] ==
                     tensor.view->strides[d + 1] * call.m;
        });
    if (!merges)
      break;
    for (Tensor &tensor : tensors)
      if (tensor.hasM) {
        if (call.m == 1)
          tensor.view->strides[d + 1] = tensor.view->strides[d];
        tensor.view->sizes[d + 1] *= call.batch[d];
      }
    call.m *= call.batch[d];
    erase(d);
  }
}
