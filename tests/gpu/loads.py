"""Programs that load a real card: each after BEGIN, and for minutes."""

BEGIN = (
    "import time, torch\na = torch.randn(8192, 8192, device='cuda', dtype=torch.bfloat16)\ntorch.cuda.synchronize()\n"
)
HOLDS = "time.sleep(600)\n"
SPINS = "torch.cuda._sleep(600 * 10**9)\ntorch.cuda.synchronize()\n"
SPINS_IN_STREAMS = (
    "streams = [torch.cuda.Stream() for _ in range(128)]\n"
    "for stream in streams:\n    with torch.cuda.stream(stream):\n        torch.cuda._sleep(600 * 10**9)\n"
    "torch.cuda.synchronize()\n"
)
# What a collective that never ends does: 32 blocks of 544 threads ask again and again whether a flag was set.
WAITS = '''
import ctypes
from cuda.bindings import driver
PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry waits(.param .u64 flag)
{
    .reg .u64 %at;
    .reg .u32 %seen;
    .reg .pred %unset;
    ld.param.u64 %at, [flag];
again:
    ld.volatile.global.u32 %seen, [%at];
    setp.eq.u32 %unset, %seen, 0;
    @%unset bra again;
    ret;
}
\\0"""
def done(result, *values):
    assert result == driver.CUresult.CUDA_SUCCESS, result
    return values[0] if values else None
flag = torch.zeros(1, device='cuda', dtype=torch.int32)
waits = done(*driver.cuModuleGetFunction(done(*driver.cuModuleLoadData(PTX)), b"waits"))
given = ((flag.data_ptr(),), (ctypes.c_void_p,))
done(*driver.cuLaunchKernel(waits, 32, 1, 1, 544, 1, 1, 0, 0, given, 0))
torch.cuda.synchronize()
'''
MATMUL = "while True:\n    a @ a\n    torch.cuda.synchronize()\n"
LITTLE = (
    "while True:\n    began = time.monotonic()\n    while time.monotonic() < began + 0.05:\n"
    "        a @ a\n        torch.cuda.synchronize()\n    time.sleep(0.95)\n"
)
COPY = (
    "host = torch.empty(2**30, dtype=torch.uint8, pin_memory=True)\n"
    "card = torch.empty(2**30, dtype=torch.uint8, device='cuda')\n"
    "while True:\n    card.copy_(host, non_blocking=True)\n    torch.cuda.synchronize()\n"
)
_REPLAYED = (
    "with torch.cuda.graph(graph):\n    for _ in range(200):\n        x.add_(1)\n"
    "while True:\n    for _ in range(50):\n        graph.replay()\n    torch.cuda.synchronize()\n"
)
GRAPH = "x, graph = torch.zeros(1, device='cuda'), torch.cuda.CUDAGraph()\n" + _REPLAYED
INTEGERS = "x, graph = torch.zeros(1, device='cuda', dtype=torch.int32), torch.cuda.CUDAGraph()\n" + _REPLAYED
SVD = "b = torch.rand(600, 600, device='cuda', dtype=torch.float64)\nwhile True:\n    torch.linalg.svd(b)\n"
