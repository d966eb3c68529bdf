"""The parallel corpora that exist: file names, sizes, checksums, addresses and licences."""

from __future__ import annotations

from adanorm.data.source import File, Source

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
IWSLT15 = "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi"
EN_VI = "https://github.com/stefan-it/nmt-en-vi/raw/master/data"
EN_VI_WHOLE = "https://bj.bcebos.com/paddlenlp/datasets/iwslt15.en-vi.tar.gz"
VAR_ATTN = (
    "https://raw.githubusercontent.com/harvardnlp/var-attn/ce2ac9ae9e9ad1374ce252bec6bfe9dfa5f00165/data"
)
SCHEMES = ("https", "http")  # the same host: a certificate that has run out is no reason to stop
GOOGLE_DRIVE = "0B_bZck-ksdkpM25jRUN2X2UxMm8"


def _multi30k(name: str, size: int, checksum: str) -> File:
    return File(name, size, checksum, (f"{MULTI30K}/{name}",))


def _iwslt15(name: str, size: int | None, md5: str) -> File:
    archive = {"train": "train-en-vi", "tst2012": "dev-2012-en-vi", "tst2013": "test-2013-en-vi"}
    packed = f"{EN_VI}/{archive[name.partition('.')[0]]}.tgz"
    addresses = (f"{IWSLT15}/{name}", f"{packed}#{name}", f"{EN_VI_WHOLE}#{name}")
    return File(name, size, f"md5:{md5}", addresses)


def _var_attn(name: str, size: int | None, checksum: str) -> File:
    return File(name, size, checksum, (f"{VAR_ATTN}/iwslt14-de-en/{name}",))


def _statmt(name: str, path: str, checksum: str | None = None) -> File:
    return File(name, None, checksum, tuple(f"{scheme}://www.statmt.org/{path}" for scheme in SCHEMES))


def _wmt16(name: str) -> File:
    host = "data.statmt.org/wmt16/translation-task"
    return File(name, None, None, tuple(f"{scheme}://{host}/{name}" for scheme in SCHEMES))


SOURCES: dict[str, Source] = {
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
        (
            File(
                "de-en.tgz",
                None,
                None,
                (
                    "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
                    "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
                ),
            ),
        ),
        counts=(160_239, 7_283, 6_750),
    ),
    "iwslt14-de-en-tokenized": Source(
        "iwslt14-de-en-tokenized",
        "CC BY-NC-ND (TED); prepared by fairseq's script, as harvardnlp/var-attn has it",
        (
            _var_attn("train.de", None, "git:7561788aaf3af56e0ea6eda906b09fbb3e3f6959"),
            _var_attn("train.en", None, "git:f0bf6f1828a6db10fe542ef3398275426b8d15fb"),
            _var_attn("valid.de", 817_209, "git:c3dac2bfdf5e0f34da511b0a541056558a2bdbc9"),
            _var_attn("valid.en", 752_788, "git:85312c841ba0f9be7a67286714c878d7581a936d"),
            _var_attn("test.de", 718_762, "git:4b0e83e063d51ad9bddc91a540ef8933b2b300de"),
            _var_attn("test.en", 657_528, "git:6c25720daee26ea004a8aeeb9b5c785a84ba3de4"),
        ),
        counts=(160_239, 7_283, 6_750),
        edition_of="iwslt14-de-en",
        preset="iwslt14-tokenized",
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
    # What Google's script took (google/seq2seq, bin/data/wmt16_en_de.sh); the counts are the archive's.
    "wmt16-en-de-parts": Source(
        "wmt16-en-de-parts",
        "research use (WMT16)",
        (
            _statmt("de-en.tgz", "europarl/v7/de-en.tgz"),
            _statmt("training-parallel-commoncrawl.tgz", "wmt13/training-parallel-commoncrawl.tgz"),
            _wmt16("training-parallel-nc-v11.tgz"),
            _wmt16("dev.tgz"),
        ),
        counts=(4_500_966, 3_000, 3_003),
        tolerance=0.02,
    ),
    "wmt16-en-de": Source(
        "wmt16-en-de",
        "research use (WMT16); pre-processed by Google",
        (
            File(
                "wmt16_en_de.tar.gz",
                None,
                "md5:874ab6bbfe9c21ec987ed1b9347f95ec",
                (  # both answer 404 since December 2021
                    f"https://drive.google.com/uc?export=download&id={GOOGLE_DRIVE}",
                    f"https://drive.usercontent.google.com/download?id={GOOGLE_DRIVE}&confirm=t",
                ),
            ),
        ),
        edition_of="wmt16-en-de-parts",
        preset="wmt16-archive",
    ),
    "wmt14-en-de": Source(
        "wmt14-en-de",
        "research use (WMT14)",
        (
            _statmt("training-parallel-europarl-v7.tgz", "wmt13/training-parallel-europarl-v7.tgz"),
            _statmt("training-parallel-commoncrawl.tgz", "wmt13/training-parallel-commoncrawl.tgz"),
            _statmt("training-parallel-nc-v9.tgz", "wmt14/training-parallel-nc-v9.tgz"),
            _statmt("test.tgz", "wmt13/test.tgz", "md5:48eca5d02f637af44e85186847141f67"),
            _statmt("test-full.tgz", "wmt14/test-full.tgz", "md5:a8cd784e006feb32ac6f3d9ec7eb389a"),
        ),
        edition_of="wmt16-en-de-parts",
        preset="wmt14-raw",
    ),
}
