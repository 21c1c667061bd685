//===- Weights.cpp - the content of nn.weight -----------------------------===//
//
// A file is mapped when the first of its weights is read.
//
//===----------------------------------------------------------------------===//
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Interpret/Interpret.h"
#include "kerf/NN/NN.h"
#include "kerf/Support/MappedFile.h"

#include <memory>

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

Weights kerf::interpret::weightsOfFiles(ModuleOp module, bool &failed) {
  using Files = std::map<uint64_t, std::unique_ptr<MappedFile>>;
  auto open = std::make_shared<Files>();
  auto paths = module->getAttrOfType<ArrayAttr>(kFilesAttr);
  return [open, paths, &failed](Operation *op) {
    auto weight = cast<nn::WeightOp>(op);
    auto stored = cast<RankedTensorType>(weight.getStored());
    Tensor view(weight.getType().getShape());
    std::unique_ptr<MappedFile> &file = (*open)[weight.getFile()];
    std::string error = "has no such file";
    if (!file && paths && weight.getFile() < paths.size())
      file = MappedFile::open(
          cast<StringAttr>(paths[weight.getFile()]).getValue(), error);
    uint64_t offset = weight.getOffset(), length = weight.getLength();
    if (!file || offset > file->bytes().size() ||
        length > file->bytes().size() - offset) {
      op->emitError("interpreter: the weight cannot be read: ")
          << (file ? "its file is shorter" : error);
      failed = true;
      return view;
    }
    Tensor whole = fromBytes(stored, file->bytes().slice(offset, length));
    if (!weight.getStarts())
      return whole;
    size_t next = 0;
    forEachIndex(view.shape, [&](ArrayRef<int64_t> index) {
      Index at(index);
      for (auto [i, start] : llvm::zip(at, *weight.getStarts()))
        i += start;
      view.data[next++] = whole.at(at);
    });
    return view;
  };
}
