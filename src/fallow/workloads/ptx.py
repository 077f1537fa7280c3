"""The kernels of `fallow burn`, as PTX text that the driver compiles for the GPU.

    fallow_fill(place, quads, seed)                  write a pattern: word n is a scrambled n, by seed
    fallow_check(place, quads, seed, wrong)          read it back; add the number of wrong words to *wrong
    fallow_compare(one, other, quads, wrong)         add the number of words that differ to *wrong
    fallow_multiply(operands, result, tiles, steps)  matrix products, tile by tile; see products.py

Memory is touched 16 bytes (a quad) at a time, by a grid of any size that strides over it.
"""

# The number of the thread in the grid goes to %r0, the number of threads to %r1.
_BEGIN = """\
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r0, %r2, %r3, %r4;
    mov.u32 %r5, %nctaid.x;
    mul.lo.u32 %r1, %r5, %r3;
"""


def _four_patterns() -> str:
    """Return code that computes the words of quad %r0, under the seed in %r10, into %r20 to %r23."""
    text = "    shl.b32 %r11, %r0, 2;\n"
    for word in range(4):
        into = f"%r{20 + word}"
        text += f"""\
    add.u32 %r12, %r11, {word};
    mad.lo.u32 {into}, %r12, 0x9E3779B1, %r10;
    shr.u32 %r40, {into}, 15;
    xor.b32 {into}, {into}, %r40;
    mul.lo.u32 {into}, {into}, 0x85EBCA77;
    shr.u32 %r40, {into}, 13;
    xor.b32 {into}, {into}, %r40;
"""
    return text


def _count_wrong(first: int, second: int) -> str:
    """Return code that adds to %r30 how many of the four words from %r(first) differ from those from %r(second)."""
    text = ""
    for word in range(4):
        text += (
            f"    setp.ne.u32 %p2, %r{first + word}, %r{second + word};\n    selp.u32 %r31, 1, 0, %p2;\n"
            "    add.u32 %r30, %r30, %r31;\n"
        )
    return text


def _striding(name: str, parameters: str, load: str, body: str, end: str = "") -> str:
    """Return a kernel whose threads stride over the quads; %rd0 is the address, %rd3 the offset of the quad."""
    return f""".visible .entry {name}({parameters})
{{
    .reg .pred %p<4>;
    .reg .b32 %r<48>;
    .reg .b64 %rd<12>;
{_BEGIN}    ld.param.u64 %rd0, [place];
    cvta.to.global.u64 %rd0, %rd0;
    ld.param.u32 %r6, [quads];
    mov.u32 %r30, 0;
{load}again:
    setp.ge.u32 %p0, %r0, %r6;
    @%p0 bra done;
    mul.wide.u32 %rd3, %r0, 16;
    add.u64 %rd4, %rd0, %rd3;
{body}    add.u32 %r7, %r0, %r1;
    setp.lt.u32 %p1, %r7, %r0;
    mov.u32 %r0, %r7;
    @!%p1 bra again;
done:
{end}    ret;
}}
"""


_ADD_WRONG = """\
    setp.eq.u32 %p3, %r30, 0;
    @%p3 bra clean;
    cvt.u64.u32 %rd5, %r30;
    ld.param.u64 %rd6, [wrong];
    cvta.to.global.u64 %rd6, %rd6;
    red.global.add.u64 [%rd6], %rd5;
clean:
"""

FILL = _striding(
    "fallow_fill",
    ".param .u64 place, .param .u32 quads, .param .u32 seed",
    "    ld.param.u32 %r10, [seed];\n",
    _four_patterns() + "    st.global.v4.u32 [%rd4], {%r20, %r21, %r22, %r23};\n",
)
CHECK = _striding(
    "fallow_check",
    ".param .u64 place, .param .u32 quads, .param .u32 seed, .param .u64 wrong",
    "    ld.param.u32 %r10, [seed];\n",
    # volatile: read the memory, not the caches
    "    ld.volatile.global.v4.u32 {%r24, %r25, %r26, %r27}, [%rd4];\n" + _four_patterns() + _count_wrong(20, 24),
    _ADD_WRONG,
)
COMPARE = _striding(
    "fallow_compare",
    ".param .u64 place, .param .u64 other, .param .u32 quads, .param .u64 wrong",
    "    ld.param.u64 %rd1, [other];\n    cvta.to.global.u64 %rd1, %rd1;\n",
    "    add.u64 %rd7, %rd1, %rd3;\n"
    "    ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd4];\n"
    "    ld.global.v4.u32 {%r24, %r25, %r26, %r27}, [%rd7];\n" + _count_wrong(20, 24),
    _ADD_WRONG,
)


def module(version: str, target: str, kernel: str) -> str:
    """Return a module of this kernel and those above, for that GPU generation or newer."""
    header = f".version {version}\n.target {target}\n.address_size 64\n"
    return header + "\n".join((FILL, CHECK, COMPARE, kernel))
