"""Products of many pairs of small matrices, in blocks whose sums stay in the processor's registers.

For the matrices of tiles (49 or 81 products, 32 to 128 channels, from 64 boards) it reaches 100 to 110 GFLOPS on one
Zen 4 core, torch 75 to 84. A row's sums do not depend on the other rows."""

from collections.abc import Callable
from functools import cache

import torch
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from torch import Tensor

from zerogo.kernels.cpu import kernel, over_games

FEATURES = set(cpu_target.target_context.codegen().magic_tuple()[2].split(","))  # for which Numba compiles
# Numbers in a vector, and at most as many vectors of sums in a block: half of the registers. 0 without x86's fused
# instructions; LLVM might call a function for each number.
LANES = 16 if "+avx512f" in FEATURES else 8 if {"+avx2", "+fma"} <= FEATURES else 0
MOST_ROWS = 8  # of a block
FEWEST_ROWS = 8  # MKL rounds products of fewer rows in another way: of less than four, with AVX2
FEWEST = 24  # products per thread, so that two share 49


def multiply_(products: Tensor, x: Tensor, y: Tensor, adds: bool = False) -> None:
    """Writes the products of the first rows of x [G, M or more, K] and y [G, K, N] to products [G, M, N], float32, or
    adds them. products is contiguous. torch computes if y is not, columns fill no vectors, or added blocks overlap."""
    _, height, width = products.shape
    assert x.shape[1] >= height and x.shape[2] == y.shape[1] and x.dtype == y.dtype == products.dtype == torch.float32
    assert products.is_contiguous() and len(x) == len(y) == len(products)
    vectors = _vectors(width)
    if vectors and y.is_contiguous() and not (adds and height % MOST_ROWS):
        arrays = (tensor.numpy() for tensor in (x, y, products))
        over_games(_multiply(vectors), len(products), *arrays, adds, fewest=FEWEST)
    else:
        products.baddbmm_(x[:, :height], y, beta=float(adds))


@cache
def _vectors(width: int) -> int:
    """Returns how many vectors of columns a block has, 0 if torch computes products of this width."""
    return next((number for number in (4, 2, 1) if LANES and width % (number * LANES) == 0), 0)


def fewest_rows(width: int) -> int:
    """Returns the number of rows from which a row's products are the same bits as alone, for a number of columns."""
    return 1 if _vectors(width) else FEWEST_ROWS


@cache
def _multiply(vectors: int) -> Callable:
    rows, columns = min(MOST_ROWS, LANES // vectors), vectors * LANES

    @kernel
    def _loop(first, last, x, y, products, adds):
        height = products.shape[1]
        for group in range(first, last):
            for column in range(0, products.shape[2], columns):
                if height < rows:
                    for row in range(height):
                        _multiply_block(x, y, products, (group, row, column), 1, vectors, adds)
                else:
                    for row in range(0, height, rows):  # the last block overlaps the one before it
                        place = group, min(row, height - rows), column
                        _multiply_block(x, y, products, place, rows, vectors, adds)

    return _loop


@intrinsic(prefer_literal=True)
def _multiply_block(_context, x, y, products, place, rows, vectors, adds):
    """Writes a block of the products at a place (group, first row, first column), so many rows and vectors large."""
    line, places = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(ir.IntType(32), LANES)

    def _generate(context, builder, signature, arguments):
        kinds, (group, row, column) = signature.args[:3], cgutils.unpack_tuple(builder, arguments[3])
        arrays = [context.make_array(kind)(context, builder, of) for kind, of in zip(kinds, arguments[:3], strict=True)]
        fused = ir.FunctionType(line, [line] * 3)
        fused = cgutils.get_or_insert_function(builder.module, fused, f"llvm.fma.v{LANES}f32")

        def _at(which, *index):
            index = [group, *index]
            return cgutils.get_item_pointer(context, builder, kinds[which], arrays[which], index, wraparound=False)

        def _line_at(which, *index):
            return builder.bitcast(_at(which, *index), line.as_pointer())

        def _load(which, *index):
            return builder.load(_line_at(which, *index), align=4)

        rows = [builder.add(row, ir.Constant(row.type, k)) for k in range(signature.args[4].literal_value)]
        columns = [
            builder.add(column, ir.Constant(row.type, k * LANES)) for k in range(signature.args[5].literal_value)
        ]
        sums = {(i, k): cgutils.alloca_once(builder, line) for i in rows for k in columns}
        for place, total in sums.items():
            builder.store(builder.select(arguments[6], _load(2, *place), ir.Constant(line, [0.0] * LANES)), total)
        with cgutils.for_range(builder, cgutils.unpack_tuple(builder, arrays[1].shape)[1]) as loop:
            lines = {k: _load(1, loop.index, k) for k in columns}
            for i in rows:
                number = builder.load(_at(0, i, loop.index))
                one = builder.insert_element(ir.Constant(line, ir.Undefined), number, ir.Constant(places.element, 0))
                every = builder.shuffle_vector(one, one, ir.Constant(places, [0] * LANES))
                for k in columns:
                    total = sums[i, k]
                    builder.store(builder.call(fused, [every, lines[k], builder.load(total)]), total)
        for place, total in sums.items():
            builder.store(builder.load(total), _line_at(2, *place), align=4)
        return context.get_dummy_value()

    return types.none(x, y, products, place, rows, vectors, adds), _generate
