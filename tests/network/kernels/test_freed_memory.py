"""The thresholds of the C library's allocator, with versions that refuse some of them."""

import pytest

from elmo.network.kernels import M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, raise_thresholds


@pytest.mark.parametrize(
    ("largest", "expected"),
    [
        (2**31, {M_MMAP_THRESHOLD: 2**30, M_TRIM_THRESHOLD: 2**31 - 1}),
        (2**25, {M_MMAP_THRESHOLD: 2**25, M_TRIM_THRESHOLD: 2**31 - 1}),
        (0, {}),
    ],
)
def test_memory_is_kept_only_where_large_blocks_are_not_mapped(largest, expected):
    """Without a higher threshold of mapping, that of trimming would keep the lowest one."""
    accepted = {}

    def mallopt(name, value):
        if name == M_MMAP_THRESHOLD and value > largest:
            return 0
        accepted[name] = value
        return 1

    raise_thresholds(mallopt)
    assert accepted == expected
