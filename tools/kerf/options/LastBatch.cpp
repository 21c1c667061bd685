//===- LastBatch.cpp - whether the last batch can be filled up ------------===//
#include "LastBatch.h"

#include "kerf/Autodiff/FilledBatch.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Plan/BatchAnalysis.h"
#include "kerf/Plan/OpRules.h"

#include "llvm/ADT/DenseSet.h"

using namespace kerf;

/// What the output reads that joins samples, apart from `sums`:
/// "node_matmul (nn.matmul)".
static std::string
joiningOp(mlir::func::FuncOp main, const std::string &output,
          const llvm::DenseSet<mlir::Operation *> &sums = {}) {
  llvm::SmallVector<mlir::Value> work;
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    if (auto name = main.getResultAttrOfType<mlir::StringAttr>(i, kNameAttr);
        name && name.getValue() == output)
      work.push_back(main.getBody().front().getTerminator()->getOperand(i));
  llvm::DenseSet<mlir::Operation *> read;
  while (!work.empty())
    if (mlir::Operation *def = work.pop_back_val().getDefiningOp();
        def && read.insert(def).second)
      llvm::append_range(work, def->getOperands());
  const plan::OpRules rules(main);
  const plan::BatchAnalysis batch(main, {}, rules);
  for (const plan::BatchAnalysis::Break &each : batch.breaks())
    if (read.contains(each.op) && !sums.contains(each.op)) {
      std::string node;
      if (auto name = llvm::dyn_cast<mlir::NameLoc>(each.op->getLoc()))
        node = name.getName().str() + " ";
      return node + "(" + each.op->getName().getStringRef().str() + ")";
    }
  return "";
}

std::string kerf::tool::whatCountsFilling(mlir::func::FuncOp main,
                                          const rt::TrainLoss &loss) {
  constexpr const char *filling = ", also those that would fill a batch up";
  std::string op;
  if (loss.isScalar()) {
    if (loss.classes == 0 || !loss.ignores)
      return ""; // nothing is filled up
    llvm::DenseSet<mlir::Operation *> sums;
    if (!autodiff::ignoresFilling(main, loss.output, loss.labels, sums))
      return "\"" + loss.output +
             "\" has more of the samples than a mean or a sum over labels, and "
             "those that would fill a batch up would count";
    op = joiningOp(main, loss.output, sums);
  } else {
    op = joiningOp(main, loss.output);
  }
  if (!op.empty())
    return op + " joins samples" + filling;
  return !loss.isScalar() && autodiff::readsLabels(main, loss.labels)
             ? std::string("the model reads the labels") + filling
             : "";
}
