//===- Contractions.cpp - matrix products ---------------------------------===//
//
// Vectors become matrices with one row or column for the product. Weights that
// are literals (ConstantOfShape) are marked as parameters.
//
//===----------------------------------------------------------------------===//
#include "Contractions.h"
#include "../Graph/Handlers.h"

using namespace kerf;
using namespace kerf::nn;
using namespace kerf::onnx_import;
using namespace mlir;

static LogicalResult matmul(Node &node) {
  if (failed(node.arity(2, 2)))
    return failure();
  Value lhs = node.in(0);
  Value rhs = node.parameter(1);
  if (rankOf(lhs) == 0 || rankOf(rhs) == 0)
    return node.error("inputs must not be scalars");
  bool row = rankOf(lhs) == 1, column = rankOf(rhs) == 1;
  if (row)
    lhs = node.reshape(lhs, {1, shapeOf(lhs)[0]});
  if (column)
    rhs = node.reshape(rhs, {shapeOf(rhs)[0], 1});
  Value product = node.matmul(lhs, rhs);
  if (!product || !(row || column))
    return node.set(product);
  SmallVector<int64_t> shape(shapeOf(product));
  if (column)
    shape.pop_back();
  if (row)
    shape.erase(shape.end() - (column ? 1 : 2));
  return node.set(node.reshape(product, shape));
}

Value kerf::onnx_import::multiplyAndAdd(Node &node) {
  double alpha = node.real("alpha", 1), beta = node.real("beta", 1);
  bool transposeA = node.integer("transA", 0);
  bool transposeB = node.integer("transB", 0);
  Value a = node.in(0), b = node.parameter(1);
  if (rankOf(a) != 2 || rankOf(b) != 2) {
    (void)node.error("inputs have ranks " + Twine(rankOf(a)) + " and " +
                     Twine(rankOf(b)) + ", expected 2");
    return {};
  }
  Value result = node.matmul(a, b, transposeA, transposeB);
  if (alpha != 1)
    result = node.mul(result, alpha);
  if (!node.has(2) || beta == 0 || !result)
    return result;
  Value c = node.parameter(2);
  auto shape = broadcastShapes(shapeOf(c), shapeOf(result));
  if (!shape || ArrayRef<int64_t>(*shape) != shapeOf(result)) {
    (void)node.error("input 2 does not broadcast to the product");
    return {};
  }
  return node.add(result, beta == 1 ? c : node.mul(c, beta));
}

static LogicalResult gemm(Node &node) {
  if (failed(node.arity(node.opset < 11 ? 3 : 2, 3)))
    return failure();
  (void)node.integer("broadcast", 0);
  return node.set(multiplyAndAdd(node));
}

static bool parseEinsum(Node &node, std::string equation,
                        SmallVectorImpl<std::string> &terms,
                        std::string &result) {
  llvm::erase_if(equation, [](char c) { return c == ' '; });
  size_t arrow = equation.find("->");
  std::string left = equation.substr(0, arrow);
  SmallVector<StringRef> parts;
  StringRef(left).split(parts, ',');
  if (parts.size() != node.inputs.size()) {
    (void)node.error("equation has " + Twine(parts.size()) +
                     " terms, expected " + Twine(node.inputs.size()));
    return false;
  }
  int64_t max = 0;
  for (auto [part, input] : llvm::zip(parts, node.inputs))
    if (part.contains("..."))
      max = std::max(max, rankOf(input) - int64_t(part.size()) + 3);
  if (max > 20) {
    (void)node.error("ellipsis stands for too many dimensions");
    return false;
  }
  // Bytes from 1 on stand for the ellipsis's dimensions.
  std::string all;
  for (int64_t i = 0; i < max; ++i)
    all.push_back(char(1 + i));
  auto expandTerm = [&](StringRef part, int64_t rank) {
    size_t at = part.find("...");
    if (at == StringRef::npos)
      return part.str();
    int64_t count = rank < 0 ? max : rank - int64_t(part.size()) + 3;
    count = std::max<int64_t>(0, std::min(count, max));
    return (part.take_front(at) + all.substr(all.size() - count) +
            part.drop_front(at + 3))
        .str();
  };
  for (auto [part, input] : llvm::zip(parts, node.inputs)) {
    terms.push_back(expandTerm(part, rankOf(input)));
    if (int64_t(terms.back().size()) != rankOf(input)) {
      (void)node.error("equation term \"" + part + "\" does not have rank " +
                       Twine(rankOf(input)));
      return false;
    }
  }
  if (arrow != std::string::npos) {
    result = expandTerm(StringRef(equation).substr(arrow + 2), -1);
    return true;
  }
  // Implicit: the ellipsis, then labels that occur once, in order.
  result = all;
  std::string once;
  for (const std::string &term : terms)
    once += term;
  llvm::sort(once);
  for (char c : once)
    if (c > 20 && llvm::count(once, c) == 1)
      result.push_back(c);
  return true;
}

/// A label that a term has twice: of these two dimensions, as one, every n +
/// 1st element.
static LogicalResult takeDiagonals(Node &node, std::string &term,
                                   Value &value) {
  for (size_t first = 0; first < term.size() && value;) {
    size_t second = term.find(term[first], first + 1);
    if (second == std::string::npos) {
      ++first;
      continue;
    }
    for (size_t dim : {first, second})
      if (node.bounds.lengthOf(value, int64_t(dim)))
        return node.unsupported("diagonal along a dimension whose size is "
                                "known only when the program runs in operator "
                                "Einsum");
    int64_t size = shapeOf(value)[first];
    if (shapeOf(value)[second] != size)
      return node.error(
          "equation repeats a label whose dimensions have sizes " +
          Twine(size) + " and " + Twine(shapeOf(value)[second]));
    SmallVector<int64_t> perm, shape;
    std::string rest;
    for (size_t d = 0; d < term.size(); ++d)
      if (d != first && d != second) {
        perm.push_back(int64_t(d));
        shape.push_back(shapeOf(value)[d]);
        rest.push_back(term[d]);
      }
    perm.append({int64_t(first), int64_t(second)});
    shape.push_back(size * size);
    int64_t last = int64_t(shape.size()) - 1;
    value = node.reshape(node.transpose(value, perm), shape);
    value = node.slice(value, last, 0, size, size + 1);
    term = rest + term[first];
    first = 0;
  }
  return success(value != nullptr);
}

/// Sums a term over labels that no other term and no output has; then
/// multiplies pairwise, as batched matmul. Of a label repeated within a term
/// the diagonal is taken first.
static LogicalResult einsum(Node &node) {
  if (failed(node.arity(1, 1 << 8)))
    return failure();
  SmallVector<std::string> terms;
  std::string result;
  if (!parseEinsum(node, node.text("equation", ""), terms, result))
    return failure();
  SmallVector<Value> values(node.inputs);
  for (auto [term, value] : llvm::zip_equal(terms, values))
    if (failed(takeDiagonals(node, term, value)))
      return failure();
  auto sizeOf = [&](const std::string &term, Value value, char label) {
    return shapeOf(value)[term.find(label)];
  };
  // Sum away labels of `term` outside `keep`.
  auto sumOut = [&](std::string &term, Value &value, const std::string &keep) {
    SmallVector<int64_t> dims;
    std::string left;
    for (auto [dim, label] : llvm::enumerate(term))
      if (keep.find(label) == std::string::npos)
        dims.push_back(int64_t(dim));
      else
        left.push_back(label);
    value = node.reduce(value, ReduceKind::Sum, dims, false);
    term = left;
  };
  auto arrange = [&](const std::string &term, Value value,
                     const std::string &order) {
    SmallVector<int64_t> perm;
    for (char label : order)
      perm.push_back(int64_t(term.find(label)));
    return node.transpose(value, perm);
  };
  while (terms.size() > 1) {
    std::string later = result;
    for (size_t i = 2; i < terms.size(); ++i)
      later += terms[i];
    sumOut(terms[0], values[0], later + terms[1]);
    sumOut(terms[1], values[1], later + terms[0]);
    if (!values[0] || !values[1])
      return failure();
    std::string batch, left, right, inner;
    for (char label : terms[0]) {
      bool inRight = terms[1].find(label) != std::string::npos;
      if (inRight) {
        int64_t a = sizeOf(terms[0], values[0], label),
                b = sizeOf(terms[1], values[1], label);
        if (a != b)
          return node.unsupported("broadcast label in operator Einsum");
      }
      (!inRight                                 ? left
       : later.find(label) != std::string::npos ? batch
                                                : inner)
          .push_back(label);
    }
    for (char label : terms[1])
      if (terms[0].find(label) == std::string::npos)
        right.push_back(label);
    // Labels of one kind become one dimension for the product, and several
    // again.
    auto joinsComputed = [&](const std::string &term, Value value,
                             const std::string &labels) {
      auto isWide = [&](char label) { return sizeOf(term, value, label) != 1; };
      return llvm::count_if(labels, isWide) > 1 &&
             llvm::any_of(labels, [&](char label) {
               return bool(
                   node.bounds.lengthOf(value, int64_t(term.find(label))));
             });
    };
    if (joinsComputed(terms[0], values[0], left) ||
        joinsComputed(terms[1], values[1], right))
      return node.unsupported(
          "operator Einsum of several labels, one of them of a size that is "
          "known only when the program runs, that are in one operand alone",
          "one such label, or MatMul");
    auto sizes = [&](const std::string &term, Value value,
                     const std::string &labels) {
      SmallVector<int64_t> list;
      for (char label : labels)
        list.push_back(sizeOf(term, value, label));
      return list;
    };
    auto product = [](ArrayRef<int64_t> list) {
      int64_t p = 1;
      for (int64_t size : list)
        p *= size;
      return p;
    };
    SmallVector<int64_t> b = sizes(terms[0], values[0], batch),
                         m = sizes(terms[0], values[0], left),
                         k = sizes(terms[0], values[0], inner),
                         n = sizes(terms[1], values[1], right);
    SmallVector<int64_t> lhsShape(b), rhsShape(b), outShape(b);
    lhsShape.append({product(m), product(k)});
    rhsShape.append({product(k), product(n)});
    outShape.append(m);
    outShape.append(n);
    Value lhs = node.reshape(arrange(terms[0], values[0], batch + left + inner),
                             lhsShape);
    Value rhs = node.reshape(
        arrange(terms[1], values[1], batch + inner + right), rhsShape);
    values[0] = node.reshape(node.matmul(lhs, rhs), outShape);
    if (!values[0])
      return failure();
    terms[0] = batch + left + right;
    values.erase(values.begin() + 1);
    terms.erase(terms.begin() + 1);
  }
  sumOut(terms[0], values[0], result);
  for (char label : result)
    if (terms[0].find(label) == std::string::npos)
      return node.error("equation's result has a label that no term has");
  if (result.size() != terms[0].size())
    return node.error("equation repeats a label in its result");
  return node.set(arrange(terms[0], values[0], result));
}

void kerf::onnx_import::addContractions(HandlerTable &table) {
  table.add("MatMul", 1, matmul);
  table.add("Gemm", 1, gemm);
  table.add("Einsum", 12, einsum);
}
