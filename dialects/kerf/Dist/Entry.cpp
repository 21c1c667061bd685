//===- Entry.cpp - the function that is planned ---------------------------===//
#include "kerf/Dist/Entry.h"

#include "kerf/Dist/Dist.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::dist;

static bool hasShardings(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, kSharding))
      return true;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (function.getResultAttr(i, kSharding))
      return true;
  return false;
}

bool dist::isPlanned(func::FuncOp function) {
  return getPart(function) || hasShardings(function) ||
         (!function.isExternal() &&
          llvm::any_of(function.getBody().front(),
                       [](Operation &op) { return op.hasAttr(kPlan); }));
}

/// `open`: the public functions with a body.
static func::FuncOp findEntry(ModuleOp module,
                              SmallVectorImpl<func::FuncOp> &open) {
  SmallVector<func::FuncOp> planned;
  func::FuncOp main;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (getPart(function))
      continue;
    if (hasShardings(function))
      planned.push_back(function);
    if (function.getName() == "main")
      main = function;
    if (function.isPublic() && !function.isExternal())
      open.push_back(function);
  }
  if (planned.size() == 1)
    return planned.front();
  if (main)
    return main;
  if (open.size() == 1)
    return open.front();
  return {};
}

func::FuncOp dist::findEntry(ModuleOp module) {
  SmallVector<func::FuncOp> open;
  return ::findEntry(module, open);
}

func::FuncOp dist::findEntryOrEmit(ModuleOp module) {
  SmallVector<func::FuncOp> open;
  if (func::FuncOp function = ::findEntry(module, open))
    return function;
  if (open.empty()) {
    emitError(module.getLoc(), "the module has no public function with a body");
    return {};
  }
  InFlightDiagnostic error =
      emitError(open[1].getLoc(), "is a second public function: which of them "
                                  "is the program? Call it @main, make the "
                                  "others private, or run "
                                  "kerf-separate-programs to have them all");
  error.attachNote(open[0].getLoc()) << "the first is @" << open[0].getName();
  return {};
}

std::string dist::freeSymbol(ModuleOp module, StringRef base) {
  std::string name = base.str();
  for (int64_t i = 0; SymbolTable::lookupSymbolIn(module, name); ++i)
    name = (base + "_" + Twine(i)).str();
  return name;
}

void dist::createMesh(ModuleOp module, MeshAttr mesh) {
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  MeshOp::create(builder, module.getLoc(), freeSymbol(module, "mesh"), mesh);
}

static void setIn(SmallVectorImpl<DictionaryAttr> &all, MLIRContext *context,
                  StringRef name, function_ref<Attribute(unsigned)> attr) {
  for (auto [index, dictionary] : llvm::enumerate(all)) {
    Attribute given = attr(index);
    if (!given)
      continue;
    NamedAttrList list(dictionary);
    list.set(name, given);
    dictionary = list.getDictionary(context);
  }
}

void dist::setArgAttrs(func::FuncOp function, StringRef name,
                       function_ref<Attribute(unsigned)> attr) {
  SmallVector<DictionaryAttr> all;
  function.getAllArgAttrs(all);
  setIn(all, function.getContext(), name, attr);
  function.setAllArgAttrs(all);
}

void dist::setResultAttrs(func::FuncOp function, StringRef name,
                          function_ref<Attribute(unsigned)> attr) {
  SmallVector<DictionaryAttr> all;
  function.getAllResultAttrs(all);
  setIn(all, function.getContext(), name, attr);
  function.setAllResultAttrs(all);
}
