//===- ImportModel.cpp - import one model and print it --------------------===//
//
// The importer alone, for lit tests: prints the module, or with --inspect or
// --json what `kerf inspect` prints. Exit codes are the importer's.
//
//===----------------------------------------------------------------------===//
#include "kerf/Import/Import.h"
#include "kerf/Import/Simplify.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

int main(int argc, char **argv) {
  cl::opt<std::string> path(cl::Positional, cl::Required,
                            cl::desc("model.onnx"));
  cl::list<std::string> dims("dim", cl::desc("NAME=SIZE"));
  cl::list<std::string> constants("constant", cl::desc("NAME=VALUE"));
  cl::list<std::string> batchDims("batch-dim", cl::desc("NAME=DIM"));
  cl::opt<bool> inspect("inspect", cl::desc("print what the model is"));
  cl::opt<bool> json("json", cl::desc("the same as JSON"));
  cl::opt<bool> plain("no-simplify", cl::desc("print what the handlers made"));
  cl::opt<bool> quiet("quiet", cl::desc("print nothing but errors"));
  cl::opt<bool> full("full", cl::desc("print large constants too"));
  cl::opt<bool> locations("locations", cl::desc("print locations"));
  cl::ParseCommandLineOptions(argc, argv);

  kerf::ImportOptions options;
  auto number = [](StringRef text) {
    int64_t value = -1;
    (void)text.getAsInteger(10, value);
    return value;
  };
  for (StringRef dim : dims)
    options.dims[dim.split('=').first.str()] = number(dim.split('=').second);
  for (StringRef dim : batchDims)
    options.batchDims[dim.split('=').first.str()] =
        number(dim.split('=').second);
  for (StringRef constant : constants)
    options.constants[constant.split('=').first.str()] =
        constant.split('=').second.str();

  mlir::MLIRContext context;
  kerf::ImportReport report;
  auto module = kerf::importOnnx(context, path, options, report);
  bool imported =
      succeeded(module) && (plain || succeeded(kerf::simplifyModule(**module)));
  mlir::ModuleOp op = imported ? **module : mlir::ModuleOp();
  if (json)
    kerf::printInspectionJson(outs(), report, op);
  else if (inspect)
    kerf::printInspection(outs(), report, op);
  else if (imported && !quiet) {
    mlir::OpPrintingFlags flags;
    if (!full)
      flags.elideLargeElementsAttrs(32);
    if (locations)
      flags.enableDebugInfo(true, false);
    op.print(outs(), flags);
    outs() << "\n";
  }
  report.print(errs());
  return report.exitCode();
}
