//===- OperandRole.h - the meaning of a constant operand --------*- C++ -*-===//
//
// Problem: a file only says that a tensor is constant. Weights, causal masks,
// tables of sines and numbers that an exporter wrote look alike, yet training
// must change only weights.
//
// Idea: an op states for each of its operands what a constant is there. The
// result of an op on constants is again a constant: the ops that read it
// decide.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_INTERFACES_OPERANDROLE_H
#define KERF_INTERFACES_OPERANDROLE_H

namespace kerf {

enum class OperandRole {
  Through,   ///< the result holds these elements, each moved or changed alone
  Learned,   ///< operand of a product, scale or bias of a normalization
  Table,     ///< rows are taken from it
  Factor,    ///< multiplied elementwise: a scale, a mask, sines and cosines
  Addend,    ///< added elementwise: a bias, positions, a mask
  Element,   ///< some elements of the result: a token, a fill
  Statistic, ///< what normalization subtracts and divides by
  Sine,      ///< the angle of a sine
  Cosine,    ///< the angle of a cosine
  Softmax,   ///< scores
  Number,    ///< a bound, an exponent, a condition
};

} // namespace kerf

#endif // KERF_INTERFACES_OPERANDROLE_H
