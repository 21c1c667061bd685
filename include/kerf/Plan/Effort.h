//===- Effort.h - what a search has done, as time ---------------*- C++ -*-===//
//
// Problem: a search that ends after so many seconds finds one plan on a fast or
// idle machine and another one on a slow or busy machine.
//
// Idea: what the search does is counted in pieces, and each kind of piece is
// worth the time that it takes on a common processor. A search that ends after
// so many seconds of these does the same everywhere, and takes about that long.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_PLAN_EFFORT_H
#define KERF_PLAN_EFFORT_H

namespace kerf::plan {

/// Kinds of pieces; what one of each is worth is in lib/Plan/Solver/Effort.cpp.
enum class WorkPiece {
  Entry,     ///< an entry of a cost table is added, compared or copied
  Step,      ///< a node is eliminated, besides its entries
  Pair,      ///< two neighbours of a node are joined in looking for an order
  Visit,     ///< a node, edge or usage of a Problem is looked at or copied
  Label,     ///< a partial solution is made and compared with others
  Choice,    ///< a layout of an op's operands and results is priced
  Move,      ///< a move between two layouts is worked out
  OpOfStage, ///< an op's memory and time in a cut into stages
  OpOfStep,  ///< an op of a step is copied
  OpLaidOut, ///< an op of a step is lowered, as far as memory is laid out
};

/// Not safe for threads: one search has one.
class Effort {
public:
  void add(WorkPiece piece, double count = 1);
  /// Of the processor that the worths were measured on.
  double seconds() const { return 1e-9 * nanoseconds; }

private:
  double nanoseconds = 0;
};

/// Where nobody asks what was done, `effort` is null.
inline void countWork(Effort *effort, WorkPiece piece, double count = 1) {
  if (effort)
    effort->add(piece, count);
}

} // namespace kerf::plan

#endif // KERF_PLAN_EFFORT_H
