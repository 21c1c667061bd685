//===- Dict.h - manifest entries as attributes ------------------*- C++ -*-===//
#ifndef KERF_LIB_LOWER_DICT_H
#define KERF_LIB_LOWER_DICT_H

#include "mlir/IR/Builders.h"

namespace kerf {

/// Builds a dictionary whose keys and values are those of manifest.json.
class Dict {
public:
  explicit Dict(mlir::MLIRContext *context) : builder(context) {}

  Dict &set(llvm::StringRef key, mlir::Attribute value) {
    attributes.set(key, value);
    return *this;
  }
  Dict &set(llvm::StringRef key, int64_t value) {
    return set(key, builder.getI64IntegerAttr(value));
  }
  Dict &set(llvm::StringRef key, double value) {
    return set(key, builder.getF64FloatAttr(value));
  }
  Dict &set(llvm::StringRef key, bool value) {
    return set(key, builder.getBoolAttr(value));
  }
  Dict &set(llvm::StringRef key, llvm::StringRef value) {
    return set(key, builder.getStringAttr(value));
  }
  Dict &set(llvm::StringRef key, const char *value) {
    return set(key, llvm::StringRef(value));
  }
  Dict &set(llvm::StringRef key, llvm::ArrayRef<int64_t> values) {
    return set(key, builder.getI64ArrayAttr(values));
  }
  Dict &set(llvm::StringRef key, llvm::ArrayRef<mlir::Attribute> values) {
    return set(key, builder.getArrayAttr(values));
  }

  mlir::DictionaryAttr get() {
    return attributes.getDictionary(builder.getContext());
  }

private:
  mlir::Builder builder;
  mlir::NamedAttrList attributes;
};

} // namespace kerf

#endif // KERF_LIB_LOWER_DICT_H
