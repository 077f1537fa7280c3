"""The kernel fallow_multiply: matrix products on the tensor cores of each GPU generation, or without them.

Every warp reads tiles of random bits from memory, makes numbers of either sign between a half and two of them, and
adds their products to sums in registers, again and again; at the end it writes the sums. The same operands give the
same sums, bit for bit, so computing them twice shows a GPU that computes wrongly. The arithmetic limits the rate; the
memory is busy at the same time.
"""

from fallow.core.value import value
from fallow.workloads import ptx

THREADS = 128
BLOCKS_PER_MULTIPROCESSOR = 3
RESULT_WORDS = 128
"""The sums that each thread computes."""


@value
class Product:
    """One way to multiply: the kernel, and how much one thread block does in one step."""

    name: str
    source: str
    flop_per_step: int
    """Floating-point operations of one block in one step."""
    tile_bytes: int
    """How much one block reads from memory in one step."""


@value
class _Instruction:
    """A product instruction of a warp, since when GPUs have it, and how its operands are packed."""

    name: str
    version: str
    target: str
    operation: str
    a_registers: int
    b_registers: int
    flop: int
    keep: str
    """The bits of a random word that stay: signs and fractions."""
    put: str
    """The bits that are set, so that each number is between a half and two."""


_ON_BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
_ON_F16 = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
_BF16 = _Instruction("bf16", "7.0", "sm_80", _ON_BF16, 4, 2, 4096, "0x80FF80FF", "0x3F003F00")
_F16 = _Instruction("f16", "6.5", "sm_75", _ON_F16, 2, 1, 2048, "0x87FF87FF", "0x38003800")
_F32 = _Instruction("f32", "6.0", "sm_50", "fma.rn.f32", 4, 1, 256, "0x80FFFFFF", "0x3F000000")
_ROWS, _COLUMNS = 4, 8  # the products of a warp: so many A with so many B, each pair with its own 4 sums
_WARPS = THREADS // 32
_REPEATS = 16  # how often each tile is used


def best(capability: tuple[int, int]) -> Product:
    """Return the product that loads a GPU of this compute capability most; its operands stay in registers."""
    instruction = _BF16 if capability >= (8, 0) else _F16 if capability >= (7, 5) else _F32
    words = _ROWS * instruction.a_registers + _COLUMNS * instruction.b_registers
    loads = -(-words // 4)
    kernel = _MULTIPLY.format(
        words=loads * 4,
        warp_tile=loads * 512,
        repeats=_REPEATS,
        zero="".join(f"    mov.f32 %f{at}, 0f00000000;\n" for at in range(RESULT_WORDS)),
        load="".join(
            f"    ld.global.v4.u32 {{{', '.join(f'%w{4 * at + word}' for word in range(4))}}}, [%rd3+{512 * at}];\n"
            for at in range(loads)
        ),
        make="".join(_number(instruction, f"%w{word}") for word in range(words)),
        products="".join(
            _warp_product(instruction, row, column) for column in range(_COLUMNS) for row in range(_ROWS)
        ),
        store=_store(),
    )
    return Product(
        instruction.name,
        ptx.module(instruction.version, instruction.target, kernel),
        flop_per_step=_WARPS * _ROWS * _COLUMNS * _REPEATS * instruction.flop,
        tile_bytes=_WARPS * loads * 512,
    )


def _number(instruction: _Instruction, word: str) -> str:
    return f"    and.b32 {word}, {word}, {instruction.keep};\n    or.b32 {word}, {word}, {instruction.put};\n"


def _warp_product(instruction: _Instruction, row: int, column: int) -> str:
    a_first = row * instruction.a_registers
    b_first = _ROWS * instruction.a_registers + column * instruction.b_registers
    sums = [f"%f{4 * (column * _ROWS + row) + word}" for word in range(4)]
    a = [f"%w{a_first + word}" for word in range(instruction.a_registers)]
    b = [f"%w{b_first + word}" for word in range(instruction.b_registers)]
    if instruction is _F32:
        return "".join(
            f"    mov.b32 %fa, {one};\n    mov.b32 %fb, {b[0]};\n    fma.rn.f32 {each}, %fa, %fb, {each};\n"
            for each, one in zip(sums, a, strict=True)
        )
    packed = [f"{{{', '.join(names)}}}" for names in (sums, a, b, sums)]
    return f"    {instruction.operation} {', '.join(packed)};\n"


def _store() -> str:
    """Return code that stores the sums: quad q of thread t goes to position q * threads + t."""
    text = ""
    for quad in range(RESULT_WORDS // 4):
        sums = ", ".join(f"%f{4 * quad + word}" for word in range(4))
        text += f"    st.global.v4.f32 [%rd5], {{{sums}}};\n    add.u64 %rd5, %rd5, %rd6;\n"
    return text


# %r0: the block; %r1: how many; %r4: the thread; %rd2: its offset in a tile; %rd5, %rd6: where its sums go.
# The tile of the next step is as many further as there are blocks, and round again.
_MULTIPLY = """\
.visible .entry fallow_multiply(.param .u64 operands, .param .u64 result, .param .u32 tiles, .param .u32 steps)
.maxntid 128, 1, 1
.minnctapersm 3
{{
    .reg .pred %p<2>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .reg .b32 %w<{words}>;
    .reg .f32 %f<128>;
    .reg .f32 %fa, %fb;
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %nctaid.x;
    mov.u32 %r4, %tid.x;
    ld.param.u64 %rd0, [operands];
    cvta.to.global.u64 %rd0, %rd0;
    ld.param.u64 %rd5, [result];
    cvta.to.global.u64 %rd5, %rd5;
    ld.param.u32 %r5, [tiles];
    ld.param.u32 %r6, [steps];
    mov.u32 %r7, %ntid.x;
    mad.lo.u32 %r8, %r0, %r7, %r4;
    mul.wide.u32 %rd7, %r8, 16;
    add.u64 %rd5, %rd5, %rd7;
    mul.lo.u32 %r8, %r1, %r7;
    mul.wide.u32 %rd6, %r8, 16;
    rem.u32 %r9, %r0, %r5;
    shr.u32 %r10, %r4, 5;
    mul.lo.u32 %r10, %r10, {warp_tile};
    and.b32 %r11, %r4, 31;
    mad.lo.u32 %r10, %r11, 16, %r10;
    cvt.u64.u32 %rd2, %r10;
    add.u64 %rd2, %rd2, %rd0;
{zero}step:
    mul.wide.u32 %rd3, %r9, {warp_tile};
    shl.b64 %rd3, %rd3, 2;
    add.u64 %rd3, %rd3, %rd2;
{load}{make}    mov.u32 %r12, {repeats};
again:
    .pragma "nounroll";
{products}    sub.u32 %r12, %r12, 1;
    setp.ne.u32 %p1, %r12, 0;
    @%p1 bra again;
    add.u32 %r9, %r9, %r1;
    rem.u32 %r9, %r9, %r5;
    sub.u32 %r6, %r6, 1;
    setp.ne.u32 %p0, %r6, 0;
    @%p0 bra step;
{store}    ret;
}}
"""
