//===- PackageTest.cpp - folders: content, same bytes, no halves ----------===//
#include "kerf/Package/Package.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <fstream>
#include <map>

using namespace mlir;
using namespace kerf;

namespace {

// Two views of one stored tensor, an identical weight under another name, an
// odd size, and a literal that is too large for a kernel.
const char *program = R"(
module attributes {kerf.files = ["{0}"]} {
  func.func @main(%x: tensor<16x8xf32> {kerf.name = "x"}) -> (tensor<16x8xf32> {kerf.name = "y"}) {
    %odd = nn.weight "odd" file 0 at 1024 : tensor<8xf32>
    %a = nn.weight "qk" file 0 at 0 : tensor<8x8xf32> of tensor<8x16xf32> from [0, 0]
    %b = nn.weight "qk" file 0 at 0 : tensor<8x8xf32> of tensor<8x16xf32> from [0, 8]
    %0 = nn.matmul %x, %a : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %1 = nn.add %0, %odd : (tensor<16x8xf32>, tensor<8xf32>) -> tensor<16x8xf32>
    %2 = nn.matmul %1, %b : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    return %2 : tensor<16x8xf32>
  }
})";

class PackageTest : public ::testing::Test {
protected:
  void SetUp() override {
    context.loadDialect<func::FuncDialect, nn::NNDialect, dist::DistDialect,
                        exec::ExecDialect>();
    llvm::SmallString<128> unique;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("kerf-package", unique));
    folder = unique.str().str();
    std::ofstream weights(folder + "/weights.bin", std::ios::binary);
    for (int i = 0; i < 264; ++i) {
      float value = i;
      weights.write(reinterpret_cast<char *>(&value), sizeof value);
    }
  }
  void TearDown() override { llvm::sys::fs::remove_directories(folder); }

  OwningOpRef<ModuleOp> lowered() {
    std::string text = program;
    text.replace(text.find("{0}"), 3, folder + "/weights.bin");
    auto module = parseSourceString<ModuleOp>(text, &context);
    PassManager passes(&context);
    buildLowerPipeline(passes);
    if (!module || failed(passes.run(*module)))
      return {};
    return module;
  }

  PackageContents contents() {
    PackageContents result;
    result.name = "test";
    result.cpu = "x86-64-v3";
    result.features = {"avx2"};
    result.sharedObject = "not really code";
    result.plan = "{}\n";
    return result;
  }

  std::string write(ModuleOp module, const PackageContents &what,
                    const std::string &path) {
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      message = diagnostic.str();
      return success();
    });
    return succeeded(writePackage(module, what, path)) ? "" : message;
  }

  static std::string read(const std::string &path) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : "missing: " + path;
  }

  llvm::json::Value manifest(const std::string &path) {
    return llvm::cantFail(llvm::json::parse(read(path + "/manifest.json")));
  }

  /// Names in the test's folder, temporary ones included.
  std::vector<std::string> list() {
    std::vector<std::string> names;
    std::error_code error;
    for (llvm::sys::fs::directory_iterator it(folder, error), end; it != end;
         it.increment(error))
      names.push_back(llvm::StringRef(it->path()).rsplit('/').second.str());
    llvm::sort(names);
    return names;
  }

  MLIRContext context;
  std::string folder;
};

// Views of one stored tensor store it once; what is aligned comes first.
TEST_F(PackageTest, StoresEachTensorOnce) {
  auto module = lowered();
  ASSERT_TRUE(module);
  ASSERT_EQ(write(*module, contents(), folder + "/a.kerf"), "");
  std::string weights = read(folder + "/a.kerf/weights.safetensors");
  uint64_t length = 0;
  memcpy(&length, weights.data(), 8);
  EXPECT_EQ((8 + length) % 64, 0u);
  auto header = llvm::cantFail(
      llvm::json::parse(llvm::StringRef(weights).substr(8, length)));
  EXPECT_TRUE(header ==
              llvm::json::Value(llvm::json::Object{
                  {"qk", llvm::json::Object{{"dtype", "F32"},
                                            {"shape", llvm::json::Array{8, 16}},
                                            {"data_offsets",
                                             llvm::json::Array{0, 512}}}},
                  {"odd", llvm::json::Object{{"dtype", "F32"},
                                             {"shape", llvm::json::Array{8}},
                                             {"data_offsets",
                                              llvm::json::Array{512, 544}}}}}));
  EXPECT_EQ(weights.size(), 8 + length + 544);
  float first = -1;
  memcpy(&first, weights.data() + 8 + length + 512, 4);
  EXPECT_EQ(first, 256); // the weight at byte 1024
  auto parameters =
      *manifest(folder + "/a.kerf").getAsObject()->getArray("parameters");
  int views = 0;
  for (const llvm::json::Value &parameter : parameters)
    if (parameter.getAsObject()->getString("tensor") == llvm::StringRef("qk"))
      views += parameter.getAsObject()->getObject("view") != nullptr;
  EXPECT_EQ(views, 2);
}

// The same module gives the same bytes in every file; an old package is
// replaced and nothing is left beside it.
TEST_F(PackageTest, SameInputSameBytes) {
  ASSERT_EQ(write(*lowered(), contents(), folder + "/a.kerf"), "");
  std::map<std::string, std::string> before;
  for (const char *name :
       {"manifest.json", "weights.safetensors", "program.so", "plan.json"})
    before[name] = read(folder + "/a.kerf/" + name);
  ASSERT_EQ(write(*lowered(), contents(), folder + "/a.kerf"), "");
  for (auto &[name, bytes] : before)
    EXPECT_EQ(read(folder + "/a.kerf/" + name), bytes) << name;
  EXPECT_EQ(list(), (std::vector<std::string>{"a.kerf", "weights.bin"}));
}

// In place: no copy, but where it is.
TEST_F(PackageTest, RefersToWeightsInPlace) {
  PackageContents inPlace = contents();
  inPlace.weightsInPlace = true;
  ASSERT_EQ(write(*lowered(), inPlace, folder + "/a.kerf"), "");
  EXPECT_FALSE(llvm::sys::fs::exists(folder + "/a.kerf/weights.safetensors"));
  auto value = manifest(folder + "/a.kerf");
  auto &files = *value.getAsObject()->getArray("external_files");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].getAsObject()->getInteger("bytes"), 1056);
  for (const llvm::json::Value &parameter :
       *value.getAsObject()->getArray("parameters")) {
    const llvm::json::Object &entry = *parameter.getAsObject();
    EXPECT_FALSE(entry.get("tensor"));
    EXPECT_EQ(entry.getObject("external")->getInteger("file"), 0);
  }
}

// A weight beyond the end of its file: both numbers, and nothing is written.
TEST_F(PackageTest, RefusesShortFile) {
  auto module = lowered();
  llvm::sys::fs::remove(folder + "/weights.bin");
  std::ofstream(folder + "/weights.bin") << "short";
  std::string message = write(*module, contents(), folder + "/a.kerf");
  EXPECT_NE(message.find("has 5 bytes, a weight ends at"), std::string::npos)
      << message;
  EXPECT_EQ(list(), (std::vector<std::string>{"weights.bin"}));
}

TEST_F(PackageTest, RefusesMissingFile) {
  auto module = lowered();
  llvm::sys::fs::remove(folder + "/weights.bin");
  EXPECT_NE(write(*module, contents(), folder + "/a.kerf").find("weights.bin"),
            std::string::npos);
  EXPECT_TRUE(list().empty());
}

// What is there and is no package stays as it is.
TEST_F(PackageTest, DoesNotReplaceOtherFiles) {
  auto module = lowered();
  std::ofstream(folder + "/precious") << "data";
  std::string message = write(*module, contents(), folder + "/precious");
  EXPECT_NE(message.find("exists and is not a package"), std::string::npos);
  EXPECT_EQ(read(folder + "/precious"), "data");
  // A web page has a manifest.json, too.
  llvm::sys::fs::create_directory(folder + "/site");
  std::ofstream(folder + "/site/manifest.json") << "{\"name\": \"page\"}";
  message = write(*module, contents(), folder + "/site");
  EXPECT_NE(message.find("exists and is not a package"), std::string::npos);
  EXPECT_EQ(read(folder + "/site/manifest.json"), "{\"name\": \"page\"}");
  llvm::sys::fs::remove_directories(folder + "/site");
  // What somebody has put into a package is not deleted with it.
  ASSERT_EQ(write(*module, contents(), folder + "/a.kerf"), "");
  ASSERT_EQ(write(*module, contents(), folder + "/a.kerf"), "");
  std::ofstream(folder + "/a.kerf/notes.txt") << "kept";
  message = write(*module, contents(), folder + "/a.kerf");
  EXPECT_NE(message.find("is a package and has \"notes.txt\""),
            std::string::npos);
  EXPECT_EQ(read(folder + "/a.kerf/notes.txt"), "kept");
  llvm::sys::fs::remove_directories(folder + "/a.kerf");
  EXPECT_NE(write(*module, contents(), folder + "/no/such/folder/a.kerf"), "");
  EXPECT_EQ(list(), (std::vector<std::string>{"precious", "weights.bin"}));
}

} // namespace
