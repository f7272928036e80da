"""Writes where librdkafka's own partitioners put records, for tests/golden/librdkafka_partitions.txt.

Run by `cargo xtask golden`, with the librdkafka that comes with confluent-kafka; its partitioners are functions of its C
interface. Columns are separated by tabs: the partitioner, the key in hexadecimal or - if there is none, and the partition
for each of the counts below, separated by spaces.
"""

import ctypes
import glob
import os
import random

import confluent_kafka

COUNTS = [1, 2, 3, 6, 7, 12, 50, 100, 1000]
NAMES = ["consistent", "consistent_random", "fnv1a", "fnv1a_random", "murmur2", "murmur2_random"]
TEXTS = [
    "", "0", "a", "ab", "abc", "abcd", "abcde", "kafka", "customer-1", "customer-2", "a-little-bit-long-string",
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", "tenant:entity", "\u00e9\u6f22", "giberish123456789",
]


def library():
    packages = os.path.dirname(os.path.dirname(confluent_kafka.__file__))
    [path] = glob.glob(os.path.join(packages, "confluent_kafka.libs", "librdkafka-*.so*"))
    return ctypes.CDLL(path)


def keys():
    chance = random.Random(20)
    yield None
    for text in TEXTS:
        yield text.encode()
    for length in range(1, 60):
        yield chance.randbytes(length)
    yield b"\xff" * 7


def is_left_to_chance(name, key):
    if name == "consistent_random":
        return not key
    return name.endswith("_random") and key is None


def main():
    librdkafka = library()
    for name in NAMES:
        function = getattr(librdkafka, "rd_kafka_msg_partitioner_" + name)
        function.argtypes = [
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p,
        ]
        function.restype = ctypes.c_int32
        for key in keys():
            if is_left_to_chance(name, key):
                continue
            placed = [function(None, key, len(key or b""), count, None, None) for count in COUNTS]
            shown = "-" if key is None else key.hex()
            print(name, shown, " ".join(map(str, placed)), sep="\t")


main()
