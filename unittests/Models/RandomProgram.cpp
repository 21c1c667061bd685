//===- RandomProgram.cpp - random functions of upstream ops ---------------===//
//
// Ops are drawn one by one; each takes values that are there, or new arguments
// of the shape that it needs. Whatever nobody has used in the end is returned.
//
//===----------------------------------------------------------------------===//
#include "RandomProgram.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace kerf::test;
using llvm::ArrayRef;
using Shape = llvm::SmallVector<int64_t, 4>;

namespace {

class Program {
public:
  explicit Program(Random &random) : random(random) {}

  std::string make(int numOps) {
    for (int count = draw(2) + 1; count > 0; --count)
      argument(drawShape());
    for (int op = 0; op < numOps; ++op)
      addOp();
    std::string results, types;
    bool isAnyLeft = llvm::any_of(values, [](const Value &value) {
      return !value.isUsed && !value.isArgument;
    });
    for (size_t i = 0; i < values.size(); ++i)
      if (isAnyLeft ? !values[i].isUsed && !values[i].isArgument
                    : i + 1 == values.size()) {
        results += (results.empty() ? "" : ", ") + values[i].name;
        types += (types.empty() ? "" : ", ") + typeOf(values[i].shape);
      }
    if (!numbers.empty() && chance(30)) {
      results += ", " + numbers.back();
      types += ", f64";
    }
    return "func.func @f(" + arguments + ") -> (" + types + ") {\n" + body +
           "  return " + results + " : " + types + "\n}\n";
  }

private:
  struct Value {
    std::string name;
    Shape shape;
    bool isArgument, isUsed = false;
  };

  int64_t draw(int64_t end) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(end));
  }
  bool chance(int percent) { return draw(100) < percent; }

  int64_t drawSize() {
    constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 6, 8, 12};
    return kSizes[draw(8)];
  }
  Shape drawShape() {
    Shape shape;
    for (int64_t rank = 1 + draw(3); rank > 0; --rank)
      shape.push_back(drawSize());
    return shape;
  }

  static std::string typeOf(ArrayRef<int64_t> shape) {
    std::string text = "tensor<";
    for (int64_t size : shape)
      text += std::to_string(size) + "x";
    return text + "f64>";
  }
  static std::string listOf(ArrayRef<int64_t> numbers) {
    std::string text;
    for (int64_t number : numbers)
      text += (text.empty() ? "" : ", ") + std::to_string(number);
    return "[" + text + "]";
  }

  std::string fresh() { return "%v" + std::to_string(next++); }

  std::string argument(const Shape &shape) {
    std::string name = fresh();
    arguments += (arguments.empty() ? "" : ", ") + name + ": " + typeOf(shape);
    values.push_back({name, shape, true});
    return name;
  }
  void define(const std::string &name, const Shape &shape,
              const std::string &text) {
    body += "  " + name + " = " + text + "\n";
    values.push_back({name, shape, false});
  }

  /// A copy: `values` grows. More often one of the last values.
  Value pick() {
    size_t back = static_cast<size_t>(
        draw(chance(60) ? std::min<int64_t>(values.size(), 3)
                        : static_cast<int64_t>(values.size())));
    Value &value = values[values.size() - 1 - back];
    value.isUsed = true;
    return value;
  }
  std::string valueOf(const Shape &shape) {
    llvm::SmallVector<Value *> found;
    for (Value &value : values)
      if (value.shape == shape)
        found.push_back(&value);
    if (found.empty() || chance(30))
      return argument(shape);
    Value *value = found[static_cast<size_t>(draw(found.size()))];
    value->isUsed = true;
    return value->name;
  }
  std::string filled(const Shape &shape, const std::string &number) {
    std::string scalar = fresh(), empty = fresh(), full = fresh();
    if (chance(30)) {
      body += "  " + full + " = arith.constant dense<" + number +
              "> : " + typeOf(shape) + "\n";
      return full;
    }
    body += "  " + scalar + " = arith.constant " + number + " : f64\n";
    body += "  " + empty + " = tensor.empty() : " + typeOf(shape) + "\n";
    body += "  " + full + " = linalg.fill ins(" + scalar + " : f64) outs(" +
            empty + " : " + typeOf(shape) + ") -> " + typeOf(shape) + "\n";
    return full;
  }

  void addOp() {
    switch (draw(10)) {
    case 0:
      return addMatmul();
    case 1:
      return addElementwise();
    case 2:
      return addSlice();
    case 3:
      return chance(50) ? addPad() : addConcat();
    case 4:
      return chance(50) ? addReshape() : addTransposed();
    default:
      return addGeneric();
    }
  }

  void addMatmul() {
    Value a = pick();
    if (a.shape.size() != 2)
      return addGeneric();
    Shape b = {a.shape[1], drawSize()}, c = {a.shape[0], b[1]};
    std::string right = valueOf(b);
    std::string into = chance(50) ? filled(c, "0.0") : valueOf(c);
    std::string name = fresh();
    define(name, c,
           "linalg.matmul ins(" + a.name + ", " + right + " : " +
               typeOf(a.shape) + ", " + typeOf(b) + ") outs(" + into + " : " +
               typeOf(c) + ") -> " + typeOf(c));
  }

  void addElementwise() {
    constexpr const char *kOps[] = {"addf", "subf", "mulf", "maximumf"};
    Value a = pick();
    std::string b = valueOf(a.shape), name = fresh();
    define(name, a.shape,
           std::string("arith.") + kOps[draw(4)] + " " + a.name + ", " + b +
               " : " + typeOf(a.shape));
  }

  void addSlice() {
    Value a = pick();
    Shape offsets, sizes, strides;
    for (int64_t size : a.shape) {
      int64_t part = chance(50) ? size : 1 + draw(size);
      int64_t stride = part > 1 && part * 2 - 1 <= size && chance(30) ? 2 : 1;
      sizes.push_back(part);
      strides.push_back(stride);
      offsets.push_back(draw(size - (part - 1) * stride));
    }
    std::string at =
        listOf(offsets) + " " + listOf(sizes) + " " + listOf(strides) + " : ";
    std::string name = fresh();
    if (chance(50))
      return define(name, sizes,
                    "tensor.extract_slice " + a.name + at + typeOf(a.shape) +
                        " to " + typeOf(sizes));
    std::string part = valueOf(sizes);
    define(name, a.shape,
           "tensor.insert_slice " + part + " into " + a.name + at +
               typeOf(sizes) + " into " + typeOf(a.shape));
  }

  void addPad() {
    Value a = pick();
    Shape low, high, shape;
    std::string indices;
    for (int64_t size : a.shape) {
      bool isPadded = chance(40);
      low.push_back(isPadded ? draw(3) : 0);
      high.push_back(isPadded ? draw(3) : 0);
      shape.push_back(size + low.back() + high.back());
      indices += (indices.empty() ? "%i" : ", %i") + std::to_string(next++) +
                 ": index";
    }
    std::string number = fresh(), name = fresh();
    std::string zero = chance(50) ? "0.0" : "2.0";
    body += "  " + number + " = arith.constant " + zero + " : f64\n";
    define(name, shape,
           "tensor.pad " + a.name + " low" + listOf(low) + " high" +
               listOf(high) + " {\n  ^bb0(" + indices +
               "):\n    tensor.yield " + number +
               " : f64\n  } : " + typeOf(a.shape) + " to " + typeOf(shape));
  }

  void addConcat() {
    Value a = pick();
    if (a.shape.empty())
      return addGeneric();
    auto dim = static_cast<size_t>(draw(a.shape.size()));
    Shape other = a.shape, shape = a.shape;
    other[dim] = drawSize();
    shape[dim] += other[dim];
    std::string b = valueOf(other), name = fresh();
    define(name, shape,
           "tensor.concat dim(" + std::to_string(dim) + ") " + a.name + ", " +
               b + " : (" + typeOf(a.shape) + ", " + typeOf(other) + ") -> " +
               typeOf(shape));
  }

  /// Splits the first dimension that is no prime, or joins the first two.
  void addReshape() {
    Value a = pick();
    std::string groups;
    Shape shape;
    int64_t number = 0;
    bool joins = a.shape.size() > 1 && chance(50);
    auto group = [&](int64_t count) {
      groups += groups.empty() ? "[" : ", [";
      for (int64_t i = 0; i < count; ++i)
        groups += (i ? ", " : "") + std::to_string(number++);
      groups += "]";
    };
    if (joins) {
      group(2);
      shape.push_back(a.shape[0] * a.shape[1]);
      for (int64_t size : llvm::drop_begin(a.shape, 2)) {
        group(1);
        shape.push_back(size);
      }
      std::string name = fresh();
      return define(name, shape,
                    "tensor.collapse_shape " + a.name + " [" + groups +
                        "] : " + typeOf(a.shape) + " into " + typeOf(shape));
    }
    bool isSplit = false;
    for (int64_t size : a.shape) {
      int64_t part = size % 2 == 0 ? 2 : size % 3 == 0 ? 3 : 1;
      if (isSplit || part == 1) {
        group(1);
        shape.push_back(size);
        continue;
      }
      if (chance(50))
        part = size / part;
      group(2);
      shape.push_back(size / part);
      shape.push_back(part);
      isSplit = true;
    }
    std::string name = fresh();
    define(name, shape,
           "tensor.expand_shape " + a.name + " [" + groups + "] output_shape " +
               listOf(shape) + " : " + typeOf(a.shape) + " into " +
               typeOf(shape));
  }

  void addTransposed() {
    Value a = pick();
    if (a.shape.empty()) // which MLIR 22 does not take
      return addGeneric();
    Shape order, shape;
    for (size_t dim = 0; dim < a.shape.size(); ++dim)
      order.push_back(static_cast<int64_t>(dim));
    std::shuffle(order.begin(), order.end(), random);
    for (int64_t dim : order)
      shape.push_back(a.shape[static_cast<size_t>(dim)]);
    std::string empty = fresh(), name = fresh();
    body += "  " + empty + " = tensor.empty() : " + typeOf(shape) + "\n";
    define(name, shape,
           "linalg.transpose ins(" + a.name + " : " + typeOf(a.shape) +
               ") outs(" + empty + " : " + typeOf(shape) +
               ") permutation = " + listOf(order));
  }

  /// Loops over the dimensions of one to three values; some are reduced.
  void addGeneric() {
    Shape loops;
    std::string dims, maps, inputs, inputTypes, parameters;
    int64_t numInputs = 1 + draw(3);
    llvm::SmallVector<size_t> windows; // loops that no value has yet
    auto addInput = [&](const std::string &name, const Shape &shape,
                        const std::string &map, int64_t number) {
      maps += "affine_map<(DIMS) -> (" + map + ")>, ";
      inputs += (inputs.empty() ? "" : ", ") + name;
      inputTypes += (inputTypes.empty() ? "" : ", ") + typeOf(shape);
      parameters += "%x" + std::to_string(number) + ": f64, ";
    };
    for (int64_t input = 0; input < numInputs; ++input) {
      Value a = pick();
      std::string map;
      for (int64_t size : a.shape) {
        std::string index;
        for (size_t loop = 0; loop < loops.size() && index.empty(); ++loop)
          if (loops[loop] == size && chance(60))
            index = "d" + std::to_string(loop);
        if (index.empty() && size == 1 && chance(50))
          index = "0";
        // A window: this loop and another one.
        if (index.empty() && size > 2 && chance(8) && loops.size() < 4) {
          index = "d" + std::to_string(loops.size()) + " + d" +
                  std::to_string(loops.size() + 1);
          windows.push_back(loops.size());
          windows.push_back(loops.size() + 1);
          loops.push_back(size - 1);
          loops.push_back(2);
        }
        if (index.empty()) {
          index = "d" + std::to_string(loops.size());
          loops.push_back(size);
        }
        map += (map.empty() ? "" : ", ") + index;
      }
      addInput(a.name, a.shape, map, input);
    }
    for (size_t loop : windows) {
      std::string value = valueOf({loops[loop]});
      addInput(value, {loops[loop]}, "d" + std::to_string(loop), numInputs++);
    }
    int64_t iterations = 1;
    for (int64_t size : loops)
      iterations *= size;
    if (iterations > 3000)
      return; // too slow; `pick` has taken the values for used, no more
    std::string iterators;
    Shape kept;
    bool reduces = false;
    for (size_t loop = 0; loop < loops.size(); ++loop) {
      dims += (loop ? ", d" : "d") + std::to_string(loop);
      bool isKept = chance(60);
      iterators += loop ? ", " : "";
      iterators += isKept ? "\"parallel\"" : "\"reduction\"";
      reduces |= !isKept;
      if (isKept)
        kept.push_back(static_cast<int64_t>(loop));
    }
    int64_t numResults = chance(20) ? 2 : 1;
    int64_t kind = draw(4);
    constexpr const char *kCombiners[] = {"addf", "mulf", "maximumf",
                                          "minimumf"};
    constexpr const char *kIdentities[] = {"0.0", "1.0", "0xFFF0000000000000",
                                           "0x7FF0000000000000"};
    std::string inits, initTypes, yields, yieldTypes, code, first;
    llvm::SmallVector<Shape> shapes;
    std::string value = expression(numInputs, loops.size(), code);
    for (int64_t result = 0; result < numResults; ++result) {
      Shape order = kept, shape;
      std::shuffle(order.begin(), order.end(), random);
      std::string map;
      for (int64_t loop : order) {
        map += (map.empty() ? "d" : ", d") + std::to_string(loop);
        shape.push_back(loops[static_cast<size_t>(loop)]);
      }
      maps += "affine_map<(DIMS) -> (" + map + ")>";
      maps += result + 1 < numResults ? ", " : "";
      bool readsInit = reduces || chance(30);
      std::string init =
          !readsInit   ? filled(shape, "0.0")
          : chance(40) ? filled(shape, reduces ? kIdentities[kind] : "0.0")
          : chance(30) ? filled(shape, "3.0")
                       : valueOf(shape);
      inits += (inits.empty() ? "" : ", ") + init;
      initTypes += (initTypes.empty() ? "" : ", ") + typeOf(shape);
      std::string accumulator = "%a" + std::to_string(result);
      parameters += accumulator + ": f64";
      parameters += result + 1 < numResults ? ", " : "";
      std::string yielded = value;
      if (readsInit) {
        yielded = "%r" + std::to_string(result);
        bool isFirst = chance(50);
        code += "    " + yielded + " = arith." +
                kCombiners[reduces ? kind : draw(4)] + " " +
                (isFirst ? accumulator : value) + ", " +
                (isFirst ? value : accumulator) + " : f64\n";
      }
      yields += (yields.empty() ? "" : ", ") + yielded;
      yieldTypes += (yieldTypes.empty() ? "" : ", ") + std::string("f64");
      shapes.push_back(shape);
    }
    for (size_t at; (at = maps.find("DIMS")) != std::string::npos;)
      maps.replace(at, 4, dims);
    std::string name = fresh();
    body += "  " + name + (numResults > 1 ? ":2" : "") +
            " = linalg.generic {indexing_maps = [" + maps +
            "], iterator_types = [" + iterators + "]}\n      ins(" + inputs +
            " : " + inputTypes + ") outs(" + inits + " : " + initTypes +
            ") {\n  ^bb0(" + parameters + "):\n" + code + "    linalg.yield " +
            yields + " : " + yieldTypes + "\n  } -> " +
            (numResults > 1 ? "(" + initTypes + ")" : initTypes) + "\n";
    for (int64_t result = 0; result < numResults; ++result)
      values.push_back(
          {numResults > 1 ? name + "#" + std::to_string(result) : name,
           shapes[static_cast<size_t>(result)], false});
  }

  /// A number that bodies use from outside: an argument, or the element of a
  /// tensor.
  std::string number() {
    if (numbers.empty() || chance(50)) {
      std::string tensor = chance(50) ? argument({}) : "";
      std::string name = fresh();
      if (tensor.empty())
        arguments += ", " + name + ": f64";
      else
        body += "  " + name + " = tensor.extract " + tensor +
                "[] : " + typeOf({}) + "\n";
      numbers.push_back(name);
    }
    return numbers[static_cast<size_t>(draw(numbers.size()))];
  }

  /// Of the inputs of a body, maybe with a number from outside, an index of a
  /// loop or a constant.
  std::string expression(int64_t numInputs, size_t numLoops,
                         std::string &code) {
    constexpr const char *kOps[] = {"addf", "subf", "mulf", "maximumf"};
    std::string value = "%x0";
    auto combine = [&](const std::string &other) {
      std::string result = fresh();
      code += "    " + result + " = arith." + kOps[draw(4)] + " " + value +
              ", " + other + " : f64\n";
      value = result;
    };
    for (int64_t input = 1; input < numInputs; ++input)
      combine("%x" + std::to_string(input));
    if (chance(20)) {
      std::string constant = fresh();
      code += "    " + constant + " = arith.constant 2.0 : f64\n";
      combine(constant);
    }
    if (chance(15))
      combine(number());
    if (chance(20) && numLoops > 0) {
      std::string index = fresh(), integer = fresh(), number = fresh();
      code += "    " + index + " = linalg.index " +
              std::to_string(draw(numLoops)) + " : index\n    " + integer +
              " = arith.index_cast " + index + " : index to i64\n    " +
              number + " = arith.sitofp " + integer + " : i64 to f64\n";
      combine(number);
    }
    return value;
  }

  Random &random;
  std::string arguments, body;
  std::vector<Value> values;
  std::vector<std::string> numbers;
  int64_t next = 0;
};

} // namespace

std::string kerf::test::makeProgram(Random &random, int numOps) {
  return Program(random).make(numOps);
}
