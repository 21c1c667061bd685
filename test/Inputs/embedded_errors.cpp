// What planOptions and Program say of what is wrong, a line each.
#include "kerf/Embed/Embed.h"
#include "kerf/Native/Native.h"

#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using kerf::native::Program;

static void say(llvm::Error error) {
  llvm::outs() << llvm::toString(std::move(error)) << "\n";
}
template <typename T> static void say(llvm::Expected<T> result) {
  if (result)
    llvm::outs() << "fine\n";
  else
    say(result.takeError());
}

int main() {
  say(kerf::planOptions("dp=2,tp=2"));
  say(kerf::planOptions("tp"));
  say(kerf::planOptions("tp=0"));
  say(kerf::planOptions("tp=4294967296,dp=4294967296"));
  say(kerf::planOptions("tp=16", "h100-8"));
  say(kerf::planOptions("tp=2", "nonesuch"));
  say(kerf::planOptions("tp=2", "nonesuch.json"));

  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  auto module = parseSourceString<ModuleOp>(R"(
    func.func private @external(tensor<2xf32>)
    func.func @dynamic(%x: tensor<?xf32>) -> tensor<?xf32> {
      return %x : tensor<?xf32>
    }
    func.func @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = arith.addf %x, %x : tensor<2xf32>
      return %0 : tensor<2xf32>
    }
  )",
                                            &context);
  for (StringRef name : {"none", "external", "dynamic"})
    say(Program::create(*module, name));
  auto program = Program::create(*module, "twice");
  if (!program)
    return say(program.takeError()), 1;
  float x[] = {1, 2.5}, y[] = {0, 0};
  say((*program)->run({x}));
  say((*program)->write("w", x));
  say((*program)->read("w", x));
  llvm::cantFail((*program)->run({x, y}));
  llvm::outs() << y[0] << " " << y[1] << "\n";
}
