//===- Cost.cpp - floating-point operations of the nn ops -----------------===//
//
// A multiply-add counts as two. Functions of local shapes, so that a sharded op
// is costed without being built.
//
//===----------------------------------------------------------------------===//
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::nn;

using TensorTypes = ArrayRef<RankedTensorType>;

#define KERF_COST(Op, Class, flops)                                            \
  int64_t Op::getFlops(TensorTypes operands, TensorTypes results) {            \
    (void)operands;                                                            \
    (void)results;                                                             \
    return flops;                                                              \
  }                                                                            \
  CostClass Op::getCostClass() { return CostClass::Class; }

static int64_t windowSize(ArrayRef<int64_t> kernel) {
  int64_t size = 1;
  for (int64_t k : kernel)
    size *= k;
  return size;
}

KERF_COST(WeightOp, View, 0)
KERF_COST(StateOp, View, 0)
KERF_COST(ConstantOp, View, 0)
KERF_COST(IotaOp, Elementwise, 0)
KERF_COST(ReshapeOp, View, 0)
KERF_COST(TransposeOp, Elementwise, 0)
KERF_COST(BroadcastOp, Elementwise, 0)
KERF_COST(ConcatOp, Elementwise, 0)
KERF_COST(SliceOp, Elementwise, 0)
KERF_COST(PadOp, Elementwise, 0)
KERF_COST(GatherOp, Gather, 0)
KERF_COST(ReduceOp, Row, operands[0].getNumElements())
KERF_COST(ArgReduceOp, Row, operands[0].getNumElements())
KERF_COST(SoftmaxOp, Row, 14 * results[0].getNumElements())
KERF_COST(LogSoftmaxOp, Row, 14 * results[0].getNumElements())
KERF_COST(BatchNormOp, Elementwise, 2 * results[0].getNumElements())
KERF_COST(LRNOp, Row,
          (2 * int64_t(getSize()) + 20) * results[0].getNumElements())
KERF_COST(MaxPoolOp, Row, windowSize(getKernel()) * results[0].getNumElements())
KERF_COST(AvgPoolOp, Row, windowSize(getKernel()) * results[0].getNumElements())
KERF_COST(MatmulOp, Matmul,
          2 * results[0].getNumElements() *
              operands[0].getShape()[operands[0].getRank() -
                                     (getTransposeLhs() ? 2 : 1)])
KERF_COST(ConvOp, Convolution,
          2 * results[0].getNumElements() *
              windowSize(operands[1].getShape().drop_front()))
KERF_COST(ConvInputGradientOp, Convolution,
          2 * operands[0].getNumElements() *
              windowSize(operands[1].getShape().drop_front()))
KERF_COST(ConvWeightGradientOp, Convolution,
          2 * operands[1].getNumElements() *
              windowSize(results[0].getShape().drop_front()))
KERF_COST(MaxPoolGradientOp, Row,
          windowSize(getKernel()) * operands[1].getNumElements())
KERF_COST(AvgPoolGradientOp, Row,
          windowSize(getKernel()) * operands[0].getNumElements())
KERF_COST(ScatterAddOp, Row, operands[1].getNumElements())
