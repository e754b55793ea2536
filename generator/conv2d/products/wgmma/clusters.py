"""Clusters of blocks that sum over a part each of one tile and add their sums through shared memory.

Source: PTX manual, cluster of cooperative thread arrays, mapa and ld.shared::cluster.
"""

from __future__ import annotations

from warpsmith.generator.device import REFERENCE, Device

CLUSTERS = {2: 64, 3: 36, 4: 27, 5: 20, 6: 16, 8: 13}
"""Clusters that an H200's 132 multiprocessors hold at once, by their blocks; more take another round (three GPUs). All
blocks of a cluster lie in one part of the GPU, and these parts have unequal numbers of multiprocessors.
"""
SURE = 4 / 5
"""Share of CLUSTERS up to which defaults of fprop and dgrad rely on them: on two other H200s 56 to 63 clusters of two
blocks took 1.15 to 1.4 times as long as expected.
"""
CLUSTER_BLOCKS = max(CLUSTERS)
"""Most blocks of a cluster: the portable size."""
CLUSTER_CYCLES, CLUSTER_BYTES_PER_CYCLE = 1500, 20
"""Clock cycles of a cluster's barriers, and bytes a cycle that a block reads from the others' shared memory."""


def clusters_at_once(blocks: int, device: Device) -> int:
    """Clusters of so many blocks that a GPU holds at once, at least one."""
    return max(CLUSTERS[blocks] * device.multiprocessors // REFERENCE.multiprocessors, 1)


def adding_ns(sum_bytes: int, blocks: int, device: Device) -> float:
    """Nanoseconds in which the blocks of a cluster add sums of `sum_bytes` each."""
    read = sum_bytes * (blocks - 1) / blocks
    return device.rates.cycles_ns(CLUSTER_CYCLES + read / CLUSTER_BYTES_PER_CYCLE)
