import torch

from epagcl.core.hashing import fold, hash64, shift_right


def test_hash_is_splitmix64():
    # First outputs of the reference generator seeded with 0 (state advances by the golden gamma).
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    gamma = 0x9E3779B97F4A7C15
    states = [(k * gamma) % 2**64 for k in range(3)]
    signed = torch.tensor([s - 2**64 if s >= 2**63 else s for s in states])
    assert [h % 2**64 for h in hash64(signed).tolist()] == expected


def test_shift_is_logical():
    numbers = [0, 1, 2**62 + 5, -1, -(2**63)]
    for bits in (1, 11, 40, 63):
        assert shift_right(torch.tensor(numbers), bits).tolist() == [(x % 2**64) >> bits for x in numbers]


def test_hash_is_a_bijection_on_a_sample():
    assert hash64(torch.arange(-50_000, 50_000)).unique().numel() == 100_000


def test_the_key_of_a_stream_depends_on_the_words_and_their_order():
    keys = [fold(words) for words in ((), (0,), (0, 0), (1, 2), (2, 1), (2**62, 1))]
    assert len(set(keys)) == len(keys)
    assert fold(()) == 0
    assert fold((5, 7)) == int(hash64(hash64(torch.tensor(5)) ^ 7))
