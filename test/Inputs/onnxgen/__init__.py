"""Random ONNX graphs, their values by ONNX Runtime, and what kerf makes of them.

arrays     types and random values
evaluate   the value of one node, by ONNX Runtime or ONNX's reference
case       a graph with all its values; which outputs are compared, and how
graph      a graph that grows node by node: operands, sources, shapes
specs/     one function for each operator: its operands, attributes and forms
generate   graph k of a seed: theme, types, operators
plans      random plans; the refusals that are true
legacy     operator set 6
running    runs a case as planned and judges it
shrink     the smallest case that still fails
campaign   many graphs over worker processes, and the summary
deviations where ONNX Runtime, ONNX's reference and the specification do not agree
text       cases as files that people read
training   steps of training, by `kerf verify --train`
derivatives gradients of `kerf train` against difference quotients in double precision
"""
