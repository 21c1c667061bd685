"""drawn.py DOCUMENT PAGE ...: the pictures of a page of `kerf report --html` have what the document says: a cell for each
device at its own coordinates, strips as wide as there are values, a mark for each collective, and bars of a schedule as
long as what they stand for, in an order in which a pipeline can run."""
import json
import re
import sys
import xml.etree.ElementTree as ET

WIDTH, LEFT = 1000, 64


def pictures(page):
    text = open(page).read()
    found = {}
    for svg in re.findall(r"<svg .*?</svg>", text, re.S):
        root = ET.fromstring(re.sub(r"(\w+)=([\w]+)(?=[ >])", r'\1="\2"', svg))
        boxes = [(each.find("title").text, each.get("class"), *(float(each.get(key)) for key in ("x", "y", "width", "height")))
                 for each in root.iter("rect")]
        height = float(root.get("viewBox").split()[3])
        for title, _, x, y, width, tall in boxes:
            assert x >= 0 and y >= 0 and x + width <= WIDTH + 3 and y + tall <= height, (page, title, x, y, width, tall, height)
        found[root.get("aria-label")] = boxes
    return found


def near(a, b):
    return abs(a - b) < 0.1 + 1e-3 * abs(b)


for document, page in zip(sys.argv[1::2], sys.argv[2::2]):
    root, drawn = json.load(open(document)), pictures(page)
    devices = root["devices"]
    is_plan = root["schema"].startswith("kerf.plan")
    assert ("values" in drawn) == ("devices" in drawn) == is_plan
    cells = drawn.get("devices", [])
    if not is_plan:  # the order of its axes is the plan's
        root["mesh"], devices = {}, 0
    assert len(cells) == devices and len({title.split(",", 1)[1] for title, *_ in cells}) == devices, cells
    assert len({(x, y) for _, _, x, y, *_ in cells}) == devices, cells
    for axis, size in root["mesh"].items():
        word = "stage" if axis == "pp" else axis
        if size > 1:
            assert {int(each) for title, *_ in cells for each in re.findall(rf", {word} (\d+)", title)} == set(range(size)), (axis, cells)
    if is_plan:
        unit = WIDTH / len(root["values"])
        strip = [each for each in drawn["values"] if each[5] == 34]
        assert near(sum(each[4] for each in strip), WIDTH), strip
        at = 0
        for title, _, x, _, width, _ in strip:  # neighbours that are cut alike are one box
            count = round(width / unit)
            assert near(x, at * unit) and all((value["sharding"] or "scalar") == title.rsplit(": ", 1)[0] for value in root["values"][at:at + count]), title
            at += count
        assert at == len(root["values"])
        marks = [each for each in drawn["values"] if each[1] == "line"]
        names = {value["name"] for value in root["values"]}
        sent = [move for move in root["communication"]["collectives"] if move["tensor"] in names or move["node"] in names]
        assert len(marks) == len(sent) and sent, (len(marks), len(sent))
    rows = {}
    for title, kind, x, y, width, _ in drawn.get("schedule", []):
        rows.setdefault(y, []).append((title, kind, x, width))
    if is_plan and root["mesh"].get("pp", 1) > 1:
        whole, micro = root["time"]["step_seconds"], root["schedule"]["micro_batches"]
        assert len(rows) == root["mesh"]["pp"]
        ends = {}
        for stage, (y, bars) in enumerate(sorted(rows.items())):
            phases = ("forward", "backward") if root["goal"] == "train" else ("forward",)
            assert sorted(title for title, *_ in bars if "micro" in title) == sorted(
                f"{phase} of micro-batch {m}" + (f", chunk {chunk}" if chunk else "")
                for phase in phases for m in range(micro) for chunk in range(root["schedule"].get("chunks", 1))), bars
            for (_, _, x, width), (_, _, after, _) in zip(bars, bars[1:]):
                assert x + width <= after + 0.1, bars
            ends.update({(stage, title): (x, x + width) for title, _, x, width in bars})
            assert max(x + width for _, _, x, width in bars) <= WIDTH + 0.1
            # What a stage computes is what the table says, less what runs once per step.
            computed = sum(width + 0.6 for title, _, _, width in bars if "micro" in title) / (WIDTH - LEFT) * whole
            assert computed <= root["stages"][stage]["seconds"] * 1.01 and computed > 0, (computed, root["stages"][stage])
        assert near(max(end for _, end in ends.values()), WIDTH), ends
        for m in range(micro):  # a stage begins what the one in front of it has finished, and the reverse
            for stage in range(1, root["mesh"]["pp"]):
                name = f"forward of micro-batch {m}"
                assert ends[stage - 1, name][1] <= ends[stage, name][0] + 0.7, (m, stage)
                if root["goal"] == "train":
                    name = f"backward of micro-batch {m}"
                    assert ends[stage, name][1] <= ends[stage - 1, name][0] + 0.7, (m, stage)
    elif is_plan:
        assert "schedule" not in drawn
    else:
        assert len(rows) == root["devices"]
        longest = max(sum(each["seconds"] for each in rank["instructions"]) for rank in root["ranks"])
        for (y, bars), rank in zip(sorted(rows.items()), root["ranks"]):
            assert len(bars) == len(rank["instructions"])
            # Behind a bar 0.6 stay free, but it has 0.2 at least.
            end, length = bars[-1][2] + bars[-1][3] - LEFT, sum(each["seconds"] for each in rank["instructions"]) / longest * (WIDTH - LEFT)
            assert -0.7 < end - length < 0.3, (end, length, rank)
