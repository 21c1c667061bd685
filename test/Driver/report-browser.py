# The pages of `kerf report --html` in a browser: it has nothing to say of them, what is seen is no empty page, the bars
# have their colours, and nothing is wider than the window.
#
# REQUIRES: kerf, onnx, chromium
# RUN: %python %s %t %inputs %chromium
import base64
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, sys.argv[2])
from kerf_tests import Checks, fresh_folder, kerf

OUT, INPUTS, BROWSER = fresh_folder(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
WIDTH, HEIGHT = 900, 1000
PARAMETERS, ACTIVATIONS = "47,109,179", "154,95,176"  # colours of bars, .a and .d of tools/kerf/report/ReportHtml.cpp
checks = Checks()


# Counts what is seen in pictures, in the browser that made them: its answer is the text of the page.
COUNT = """<!doctype html>IMAGES<pre></pre><script>
addEventListener("load", () => {
  const counted = Array.from(document.images, image => {
    const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
    canvas.drawImage(image, 0, 0);
    const data = canvas.getImageData(0, 0, image.width, image.height).data;
    const count = {width: image.width, dark: 0, first: 0, second: 0, margin: 0, other: 0};
    for (let i = 0; i < data.length; i += 4) {
      const colour = data.slice(i, i + 3).join(), x = i / 4 % image.width;
      count.dark += Math.max(data[i], data[i + 1], data[i + 2]) < 96;
      count.first += colour == "PARAMETERS";
      count.second += colour == "ACTIVATIONS";
      count.other += colour != "255,255,255";
      count.margin += x >= image.width - 8 && colour != "255,255,255";
    }
    return count;
  });
  document.querySelector("pre").textContent = JSON.stringify(counted);
});
</script>""".replace("PARAMETERS", PARAMETERS).replace("ACTIVATIONS", ACTIVATIONS)


def browse(name, page, *flags):
    run = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                          f"--user-data-dir={OUT / 'profile'}", f"--window-size={WIDTH},{HEIGHT}", "--enable-logging=stderr", *flags,
                          page.as_uri()], capture_output=True, text=True, errors="replace", timeout=300)
    checks.expect(f"{name}: the browser ends", run.returncode == 0, run.stderr[-2000:])
    return run.stdout, [line for line in run.stderr.splitlines() if "CONSOLE" in line]


def look(name):
    """What the browser says of a page; its picture is NAME.png."""
    return browse(name, OUT / f"{name}.html", f"--screenshot={OUT / name}.png")[1]


# What would be noticed: a script that fails, and a page without anything on it.
(OUT / "faulty.html").write_text("<!doctype html><script>nowhere()</script>")
said = look("faulty")
checks.expect("a fault is noticed", any("nowhere" in line for line in said), said)

TRAIN = [INPUTS / "training/mlp/model.onnx", "--dim=batch=16", "--train", "--loss=cross_entropy(logits,labels)", "--optimizer=adam"]
MODEL = [INPUTS / "models/gpt2-small/model.onnx", "--dim=batch=8", "--devices=4"]
PAGES = {"plan": ["plan", *MODEL, "-q", "-o"],
         "step": ["plan", *TRAIN, "--devices=4", "--mesh=pp=2,dp=2", "--micro-batches=4", "-q", "-o"],
         "run": ["run", *MODEL, "--mesh=dp=2,tp=2", "--seed=1", "-q", "--stats"]}
for name, arguments in PAGES.items():
    document = OUT / f"{name}.json"
    for command in ([*arguments, document], ["report", document, f"--html={OUT / name}.html"]):
        result = kerf(*command)
        checks.expect(f"{name}: {command[0]}", result.returncode == 0, result.stderr)
    said = look(name)
    checks.expect(f"{name}: nothing goes wrong", not said, said)

names = ["faulty", *PAGES]
pictures = ["data:image/png;base64," + base64.b64encode((OUT / f"{name}.png").read_bytes()).decode() for name in names]
(OUT / "count.html").write_text(COUNT.replace("IMAGES", "".join(f'<img src="{picture}">' for picture in pictures)))
shown, said = browse("count", OUT / "count.html", "--dump-dom")
counts = dict(zip(names, json.loads(re.search(r"<pre>(.*?)</pre>", shown)[1] or "[]")))
checks.expect("pictures are counted", len(counts) == len(names), [shown[-300:], said])
for name, count in counts.items():
    if name == "faulty":
        checks.expect("an empty page is noticed", count["width"] == WIDTH and count["other"] == 0, count)
        continue
    checks.expect(f"{name}: text", count["dark"] > 2000, count)
    checks.expect(f"{name}: bars of two colours", min(count["first"], count["second"]) > 100, count)
    checks.expect(f"{name}: no wider than the window", count["margin"] == 0, count)
checks.finish()
