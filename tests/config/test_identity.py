"""What identifies a run: its settings, and its files by their role and content; and where it lies."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import IDX_NAMES, SPLITS, data_bin_files, penn_files
from adanorm.config.experiment import Experiment
from adanorm.config.model_sections import ResidualConfig
from adanorm.config.overrides import parse_override, swept
from adanorm.config.paths import DRY_RUNS, RUNS
from adanorm.config.values import digest_of, sha256
from tests.data.sections import write_splits

RT = ("task=rt", "scale=smoke", "norm=adanorm")


def run_on_own_sentences(folder: Path, train: str) -> Experiment:
    folder.mkdir()
    files = write_splits(folder, {"train": train, "valid": "a\tb\n", "test": "a\tc\n"})
    return compose_experiment([*RT, *files])


def test_own_files_count_by_content_wherever_they_lie(tmp_path: Path) -> None:
    first, moved = (run_on_own_sentences(tmp_path / name, "a\tone\n") for name in ("here", "there"))
    data = first.identity["data"]
    assert data["source"] == "own"
    assert not {"train", "valid", "test", "path", "cache", "mirror", "mirrors"} & {*data}
    assert data["files"]["train"] == hashlib.sha256(b"a\tone\n").hexdigest()
    assert moved.digest == first.digest
    assert str(tmp_path) not in str(first.identity)
    assert run_on_own_sentences(tmp_path / "other", "a\ttwo\n").digest != first.digest
    assert "files" not in compose_experiment(RT).identity["data"]
    assert "code" not in compose_experiment(RT).identity["norm"]


def test_a_copy_has_an_identity_of_its_own() -> None:
    run = compose_experiment(RT)
    assert run.folder() != run.model_copy(update={"seed": 7}).folder()
    assert (
        run.model_copy(update={"seed": 7}).identity == compose_experiment([*RT, "seed=7"]).identity
    )
    assert run.identity == compose_experiment(RT).identity
    assert run == compose_experiment(RT), "what was computed of a run is no part of it"


@pytest.mark.parametrize("task", ["rt", "mnist", "enwik8", "ptb", "gaussian"])
def test_an_identity_has_no_null(task: str) -> None:
    """A setting that is added later, null by default, leaves digests as they are."""
    assert "null" not in json.dumps(compose_experiment([f"task={task}", "scale=smoke"]).identity)


OTHER = [
    (
        "task=rt norm=rmsnorm",
        "training.lr=0.002",
        "seed=2",
        "norm.params.eps=1e-3",
        "norm.placement=final",
    ),
    (
        "task=rt",
        "precision=bf16",
        "precision=tf32",
        "training.optimizer=sgd",
        "training.optimizer=muon",
        "model.norm_position=sandwich",
    ),
    ("task=rt model.layers=8 model.norm_position=mix", "model.post_layers=3"),
    ("task=rt model.norm_position=hybrid", "model.qk_norm=all"),
    ("task=mnist", "model.norm_position=post", "model.norm_position=sandwich"),
    ("task=ptb data.source=ptb-sample", "data.fold=2"),
]


@pytest.mark.parametrize("line", OTHER, ids=lambda line: line[0])
def test_another_choice_makes_another_run(line: tuple[str, ...]) -> None:
    choice, *changes = line
    runs = [compose_experiment([*choice.split(), "scale=smoke"])]
    for change in changes:
        runs.append(compose_experiment([*choice.split(), "scale=smoke", change]))
    assert len({run.digest for run in runs}) == len(runs)


def test_runs_lie_by_task_and_norm_and_dry_runs_in_a_folder_that_no_table_reads(
    tmp_path: Path,
) -> None:
    run = compose_experiment([*RT, "seed=3"])
    assert run.folder() == RUNS / "rt" / "adanorm" / f"smoke-seed3-{run.digest}"
    there = compose_experiment([*RT, f"runs={tmp_path}"])
    assert there.folder() == tmp_path / "rt" / "adanorm" / f"smoke-seed1-{there.digest}"
    dry = compose_experiment(["task=rt", "scale=paper", "norm=adanorm", "updates=2"])
    name = f"dry-paper-seed1-{dry.digest}"
    assert dry.folder() == DRY_RUNS / "rt" / "adanorm" / name
    elsewhere = dry.model_copy(update={"runs": str(tmp_path)})
    assert elsewhere.folder() == tmp_path / "rt" / "adanorm" / name


def test_a_setting_left_out_follows_from_other_settings() -> None:
    assert compose_experiment([*RT, "threads=3", "seed=${threads}"]).seed == 3
    for pre_norm, position in (("true", "pre"), ("false", "post")):
        model = compose_experiment([*RT, f"model.pre_norm={pre_norm}"]).model
        assert isinstance(model, ResidualConfig)
        assert model.position == position
    chosen = {
        task: compose_experiment([f"task={task}"]).task.selection_metric for task in ("rt", "de-en")
    }
    assert chosen == {"rt": "accuracy", "de-en": "loss"}


def test_a_digest_is_of_the_shortest_json_with_sorted_keys_and_whole_numbers_as_such() -> None:
    text = b'{"a":1,"b":[2,0.5,{"c":true,"d":null}],"e":"1.0"}'
    values = {"e": "1.0", "b": [2.0, 0.5, {"d": None, "c": True}], "a": 1.0}
    assert digest_of(values) == hashlib.sha256(text).hexdigest()[:8]


def test_the_sha256_of_files_is_that_of_their_bytes_one_after_the_other(tmp_path: Path) -> None:
    contents = [bytes(range(256)) * 5000, b"", b"end"]  # the first of more than a mebibyte
    paths = [tmp_path / str(number) for number in range(3)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    assert sha256(*paths) == hashlib.sha256(b"".join(contents)).hexdigest()
    assert sha256(*reversed(paths)) != sha256(*paths)


def touched(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def own_files(task: str, path: Path) -> dict[str, Path]:
    return compose_experiment([f"task={task}", f"data.path={path}"]).data.own_files()


SECTIONS = [
    f"{part:02d}/wsj_{part:02d}{n:02d}.dep" for part in (0, 1, 2, 21, 22, 23, 24) for n in (0, 99)
]


def test_sections_2_to_21_of_the_penn_treebank_train_22_validates_and_23_tests(
    tmp_path: Path,
) -> None:
    files = penn_files(touched(tmp_path, *SECTIONS))
    assert {split: [path.stem for path in paths] for split, paths in files.items()} == {
        "train": ["wsj_0200", "wsj_0299", "wsj_2100", "wsj_2199"],
        "valid": ["wsj_2200", "wsj_2299"],
        "test": ["wsj_2300", "wsj_2399"],
    }
    touched(tmp_path, "copy/wsj_0200.dep")
    with pytest.raises(ValueError, match="holds wsj_0200 more than once"):
        penn_files(tmp_path)


def test_a_data_bin_is_of_two_languages_in_either_order(tmp_path: Path) -> None:
    names = [
        *(f"dict.{language}.txt" for language in ("de", "en")),
        *(
            f"{split}.en-de.{kind}"
            for split in SPLITS
            for kind in ("de.bin", "de.idx", "en.bin", "en.idx")
        ),
    ]
    touched(tmp_path, *names[:-1])
    with pytest.raises(ValueError, match=r"holds no test\.en-de\.en\.idx"):
        data_bin_files(tmp_path, ("de", "en"))
    touched(tmp_path, names[-1])
    for languages in (("de", "en"), ("en", "de")):
        assert {*data_bin_files(tmp_path, languages)} == {*names}
    with pytest.raises(ValueError, match=r"holds no train\.de-fr\.de\.bin"):
        data_bin_files(tmp_path, ("de", "fr"))


def test_own_sentences_are_three_files_and_an_own_text_is_one(tmp_path: Path) -> None:
    touched(tmp_path, "a", "b")
    some = [
        "task=rt",
        "scale=smoke",
        f"data.train={tmp_path / 'a'}",
        f"data.valid={tmp_path / 'b'}",
    ]
    with pytest.raises(
        ValueError, match=r"needs data.train, data.valid and data.test: set data.test too"
    ):
        assert compose_experiment(some).identity
    with pytest.raises(ValueError, match=r"data\.test=.*c: no such file"):
        assert compose_experiment([*some, f"data.test={tmp_path / 'c'}"]).identity
    whole = compose_experiment([*some, f"data.test={touched(tmp_path, 'c') / 'c'}"])
    assert whole.own_data
    assert {*whole.identity["data"]["files"]} == {*SPLITS}
    with pytest.raises(ValueError, match=r"data\.path=.*d: no such file"):
        own_files("enwik8", tmp_path / "d")


def test_a_data_bin_and_texts_exclude_each_other(tmp_path: Path) -> None:
    for key, is_allowed in (("data.train", False), ("data.cache", True)):
        data = compose_experiment(["task=de-en", f"data.path={tmp_path}", f"{key}={tmp_path}"]).data
        with pytest.raises(
            ValueError, match="holds no train" if is_allowed else "exclude each other"
        ):
            data.own_files()


def test_a_file_beside_another_of_its_name_packed_must_hold_the_same(tmp_path: Path) -> None:
    touched(tmp_path, *IDX_NAMES)
    name, whole = IDX_NAMES[1], gzip.compress(b"others")
    twin = tmp_path / f"{name}.gz"
    twin.write_bytes(gzip.compress(b""))
    assert own_files("mnist", tmp_path)[name] == twin
    twin.write_bytes(whole)
    with pytest.raises(ValueError, match=rf"{name}\.gz: has other data than {name} beside it"):
        own_files("mnist", tmp_path)
    for broken in (whole[:-5], whole[:10] + b"\xff" + whole[11:], b"plain"):
        twin.write_bytes(broken)
        with pytest.raises(ValueError, match=rf"{name}\.gz: not a whole gzip file"):
            own_files("mnist", tmp_path)
    touched(tmp_path, *(f"{split}.{language}" for split in SPLITS for language in ("de", "en")))
    pairs = compose_experiment(
        ["task=de-en", *(f"data.{split}={tmp_path / split}" for split in SPLITS)]
    ).data
    assert len(pairs.own_files()) == 6
    (tmp_path / "valid.en.gz").write_bytes(whole)
    with pytest.raises(ValueError, match=r"valid\.en\.gz: has other data than valid\.en beside it"):
        pairs.own_files()


@pytest.mark.parametrize("norm", ["adanorm", "groupnorm", "batchnorm-noisy"])
def test_a_norm_without_one_of_its_parameters_has_the_identity_of_the_default(norm: str) -> None:
    line = ["task=gaussian", "scale=smoke", f"norm={norm}"]
    whole = compose_experiment(line)
    for name in whole.norm.params:
        assert compose_experiment([*line, f"~norm.params.{name}"]).digest == whole.digest, name


@pytest.mark.parametrize(
    "setting",
    [
        "norm.params.k=1e-60",
        "norm.params.C=1e39",
        "norm.params.k=-1e-46",
        "training.lr=1e-60",
        "training.weight_decay=1e-50",
        "training.clip_norm=1e-45",
        "training.betas=[0.9,1e-50]",
        "model.dropout=1e-400",  # 0 in double precision too
        "norm.params.C=12.5E-999",
        "seed=1e-400",
    ],
)
def test_a_number_that_vanishes_or_overflows_in_single_precision_is_refused(setting: str) -> None:
    key = setting.partition("=")[0]
    with pytest.raises(ValueError, match=f"^{key}=.*: is 0 or infinite in single precision$"):
        compose_experiment(["task=rt", "norm=adanorm", "scale=smoke", setting])


@pytest.mark.parametrize(
    "setting",
    [
        "training.lr=1_0",
        "seed=1_0",
        "training.betas=[0.9,0_1.5]",
        "training.lr=0_1",
        "training.lr=1e1_0",
        "training.lr=1_0e-5",
        "training.lr='1_0e-5'",
        "norm.params.k=1e-0_1",
        "training.max_epochs='1_0'",
        "training.average={of:best,count:1_0}",
        "++training.average={of: best, count: '1_0'}",
    ],
)
def test_a_number_that_yaml_1_2_does_not_read_is_refused(setting: str) -> None:
    with pytest.raises(ValueError, match="write numbers without _"):
        compose_experiment(["task=rt", "norm=adanorm", "scale=smoke", setting])


@pytest.mark.parametrize("text", [" 10", "10 ", "１0", "0x10", "10,0", "10 epochs"])
def test_a_text_that_is_no_decimal_number_is_refused_for_a_number(text: str) -> None:
    line = ["task=rt", "norm=adanorm", "scale=smoke"]
    assert compose_experiment([*line, "training.max_epochs='+10'"]).training.max_epochs == 10
    with pytest.raises(ValueError, match=f"^training: max_epochs='{text}': must be a number$"):
        compose_experiment([*line, f"training.max_epochs='{text}'"])
    assert parse_override(f"logger.group='{text}'").value() == text


@pytest.mark.parametrize(
    "sweep", ["training.lr=1_0e-4,1e-3", "training.lr=choice(1_0,2)", "seed=range(1,1_0)"]
)
def test_a_sweep_over_grouped_digits_is_refused(sweep: str) -> None:
    with pytest.raises(ValueError, match="write numbers without _"):
        swept(sweep)
    assert swept("logger.group=a1_0,'1_0',2024_b") == [
        "logger.group=a1_0",
        "logger.group='1_0'",
        "logger.group=2024_b",
    ]


def test_a_number_with_a_zero_in_front_is_decimal() -> None:
    line = ["task=rt", "norm=adanorm", "scale=smoke"]
    assert compose_experiment([*line, "seed=010"]).seed == 10
