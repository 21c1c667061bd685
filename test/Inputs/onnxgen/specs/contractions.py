"""Matrix products: MatMul of every rank, Gemm, Einsum; and the biases that follow them."""
from ..arrays import FLOATS
from ..graph import Skip
from . import spec


def factor(g, op, **options):
    return g.operand(op, dtypes=g.dtypes(op) & set(FLOATS), **options)


@spec("MatMul", train=True)
def matmul(g, op):
    a = factor(g, op, low=1)
    shape, dtype = g.shape(a), g.dtype(a)
    if g.chance(0.5):  # `a` on the left
        inner = shape[-1]
        kind = g.r.random()
        if kind < 0.55:
            wish = [inner, g.size()]
        elif kind < 0.65:
            wish = [inner]
        elif len(shape) < 2:
            wish = [g.size(), inner, g.size()]
        else:
            batch = [1 if g.chance(0.25) else size for size in shape[:-2]]
            if g.chance(0.25):
                batch = batch[g.r.randint(0, len(batch)):]
            elif len(batch) < 3 and g.chance(0.2):
                batch.insert(0, g.size())
            wish = [*batch, inner, g.size()]
        left = True
    else:
        inner = shape[-2] if len(shape) > 1 else shape[0]
        batch = [1 if g.chance(0.25) else size for size in shape[:-2]]
        batch = batch[g.r.randint(0, len(batch)) if g.chance(0.3) else 0:]
        wish = [inner] if g.chance(0.1) else [*batch, g.size(), inner]
        left = False

    def fits(array):
        return array.dtype == dtype and list(array.shape) == wish

    b = g.find(fits, 0.8) or (g.weight(wish, dtype) if g.chance(0.7) else g.source(wish, dtype))
    y = g.node(op, [a, b] if left else [b, a])
    if g.chance(0.3):
        bias = g.weight(g.shape(y)[-1:] if g.rank(y) and g.chance(0.7) else g.shape(y), dtype)
        y = g.node("Add", [y, bias] if g.chance(0.5) else [bias, y])
    return y


@spec("Gemm", train=True)
def gemm(g, op):
    a = factor(g, op, low=2, high=2)
    trans_a, trans_b = g.r.choice((0, 1)), g.r.choice((0, 1))
    rows, inner = g.shape(a)[::-1] if trans_a else g.shape(a)
    columns = g.size()
    b = g.weight([columns, inner] if trans_b else [inner, columns], g.dtype(a))
    c = None
    if g.chance(0.75) or g.opset < 11:
        wish = g.r.choice(([columns], [columns], [1, columns], [rows, 1], [rows, columns], [1], [], [1, 1]))
        c = g.weight(wish, g.dtype(a)) if g.chance(0.8) else g.source(wish, g.dtype(a))
    return g.node(op, [a, b, c], transA=trans_a or None, transB=trans_b or None,
                  alpha=g.r.choice((None, None, 0.5, 2.0)), beta=g.r.choice((None, None, 0.5, 0.0)))


EQUATIONS = ("ij,jk->ik", "ij,kj->ik", "ji,jk->ki", "bij,bjk->bik", "bij,bkj->bik", "bij,jk->bik", "bhid,bhjd->bhij",
             "bhij,bhjd->bhid", "bihd,bjhd->bhij", "i,j->ij", "i,i->", "ij,ij->ij", "ij->ji", "ij->i", "ij->",
             "bij->bji", "ij,jk", "...ij,...jk->...ik", "...i->...", "ijk,jil->kl", "ij,j->i", "b...,b...->b",
             "ij,jk,kl->il", "i,ij,j->", "bi,bj->bij", " ij , jk -> ik ", "ijkl->lkji")


@spec("Einsum", train=True)
def einsum(g, op):
    equation = g.r.choice(EQUATIONS)
    dtype = g.any_of(g.dtypes(op) & set(FLOATS))
    sizes, inputs = {}, []
    dots = [g.size() for _ in range(g.r.randint(0, 2))]
    for term in equation.replace(" ", "").split("->")[0].split(","):
        labels = list(term.replace("...", ""))
        at = term.find("...")

        def known(array):
            if at >= 0 or array.dtype != dtype or array.ndim != len(labels):
                return False
            return all(sizes.get(label, size) == size for label, size in zip(labels, array.shape))

        name = g.find(known)
        if not name:
            shape = [sizes.setdefault(label, g.size()) for label in labels]
            if at >= 0:
                shape[at:at] = dots
            name = g.source(shape, dtype) if g.chance(0.5) else g.weight(shape, dtype)
        elif at < 0:
            sizes.update(zip(labels, g.shape(name)))
        inputs.append(name)
    if any(g.array(each).size > 4000 for each in inputs):
        raise Skip
    return g.node(op, inputs, equation=equation)
