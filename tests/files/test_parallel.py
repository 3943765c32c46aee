"""A function applied by several processes."""

from elmo.files.parallel import map_in_order


def test_map_in_order_reads_only_a_little_ahead():
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    results = map_in_order(abs, items(), 2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    assert len(taken) <= 10
    results.close()
