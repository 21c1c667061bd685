// A compiler that plans with costs, a machine and a mesh of its own. Its
// products take three times the operations that Kerf counts, say since it
// multiplies float32 as three products of bfloat16; its machine has four
// devices of OPERATIONS per second on a slow bus, in a mesh of rows and
// columns.
//   own-costs FILE OPERATIONS
#include "kerf/Collectives/Passes.h"
#include "kerf/Embed/Embed.h"
#include "kerf/Interfaces/ShardingRule.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Plan/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"

using namespace mlir;

namespace {

/// Operands and results are local: what one device computes.
struct ProductCost
    : kerf::OpCostInterface::ExternalModel<ProductCost, linalg::MatmulOp> {
  int64_t getFlops(Operation *, ArrayRef<RankedTensorType> operands,
                   ArrayRef<RankedTensorType> results) const {
    return 3 * 2 * results[0].getNumElements() * operands[0].getDimSize(1);
  }
  int64_t getBytesTouched(Operation *, ArrayRef<RankedTensorType> operands,
                          ArrayRef<RankedTensorType> results) const {
    return kerf::defaultBytesTouched(kerf::CostClass::Matmul, operands,
                                     results);
  }
  kerf::CostClass getCostClass(Operation *) const {
    return kerf::CostClass::Matmul;
  }
  kerf::LibraryWork getLibraryWork(Operation *) const {
    return kerf::LibraryWork::Product;
  }
};

} // namespace

static kerf::cost::Machine makeMachine(double operations) {
  kerf::cost::Machine machine;
  machine.name = "bus-4";
  machine.devicesPerNode = 4;
  for (kerf::cost::Throughput &each : machine.throughput)
    each = {operations, /*bytesPerSecond=*/1e15, /*latencySeconds=*/0};
  machine.local = {/*latencySeconds=*/1e-6, /*bytesPerSecond=*/1e9, {}, 0};
  return machine;
}

int main(int argc, char **argv) {
  double operations = 0;
  if (argc != 3 || StringRef(argv[2]).getAsDouble(operations))
    return 2;
  DialectRegistry registry;
  registry
      .insert<arith::ArithDialect, linalg::LinalgDialect, math::MathDialect>();
  // Before Kerf's: of several models of an op the first counts.
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    linalg::MatmulOp::attachInterface<ProductCost>(*context);
  });
  kerf::registerEmbeddedDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  auto module = parseSourceFile<ModuleOp>(argv[1], &context);
  if (!module)
    return 1;

  kerf::plan::PlanOptions options;
  options.devices = 4;
  options.machine = makeMachine(operations);
  options.mesh = {{"row", 2}, {"column", 2}};
  kerf::plan::PlanRun planned;
  PassManager passes(&context);
  passes.addPass(kerf::plan::createFlatten());
  passes.addPass(kerf::plan::createPlanPass(options, "bus-4", planned));
  kerf::buildPartitionPipeline(passes);
  kerf::buildCollectivesPipeline(passes);
  if (failed(passes.run(*module)))
    return 1;
  const kerf::plan::CandidateSummary &best = planned.result->candidates.front();
  llvm::outs() << llvm::format("%.6e seconds, ", best.seconds)
               << best.totalBytes << " bytes\n";
}
