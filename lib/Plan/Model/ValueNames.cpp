//===- ValueNames.cpp - what the values of a function are called ----------===//
#include "Graph.h"

#include "kerf/Interfaces/KerfDialect.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

static constexpr StringLiteral kOfConstant = ":constant";

bool kerf::plan::isUnnamedConstant(Operation *op) {
  auto source = dyn_cast<SourceOpInterface>(op);
  return source && !source.isParameter() && source.getSourceName().empty();
}

bool ValueNames::isOfConstant(StringRef name) {
  StringRef base = name.rtrim("0123456789");
  return (base.ends_with("#") ? base.drop_back() : name).ends_with(kOfConstant);
}

ValueNames::ValueNames(func::FuncOp function, Constants constants) {
  // By base: numbers below this one are taken. A node may become many ops, so
  // they are not tried again for each.
  llvm::StringMap<int64_t> next;
  auto add = [&](Value value, StringRef base) {
    std::string name = base.empty() ? "value" : base.str();
    int64_t &count = next.try_emplace(base, 2).first->second;
    for (; values.count(name); ++count)
      name = (base + "#" + Twine(count)).str();
    values[name] = value;
    names[value] = name;
  };
  for (BlockArgument argument : function.getArguments()) {
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                      kNameAttr);
    add(argument, name ? name.getValue() : "arg");
  }
  for (Operation &op : function.getBody().front()) {
    // Reshards are the plan's, not the model's.
    if (isa<dist::ReshardOp>(op))
      continue;
    for (OpResult result : op.getResults()) {
      std::string base = op.getName().stripDialect().str();
      if (auto loc = op.getLoc()->findInstanceOf<NameLoc>()) {
        base = loc.getName().str();
        if (constants == Constants::Apart && isUnnamedConstant(&op))
          base += kOfConstant;
      }
      if (auto source = dyn_cast<SourceOpInterface>(&op);
          source && !source.getSourceName().empty())
        base = source.getSourceName().str();
      if (result.getResultNumber() > 0)
        base += ":" + std::to_string(result.getResultNumber());
      add(result, base);
    }
  }
}
