"""The cells of a notebook, each after a line `# %%`. `adanorm notebook` reads this file as text."""

# %% [markdown] # $title This notebook trains $runs at scale $scale on a GPU that you have for some
# hours, such as a free one of Google Colab or Kaggle. It ends in one file for you to send back;
# nothing is sent by itself.
#
# 1. **Choose a GPU.** Colab: *Runtime > Change runtime type > T4 GPU*. Kaggle: *Settings > Accelerator > GPU
#    T4 x2*; there also switch *Internet* on and set *Persistence* to *Files only*.
# 2. **Run all cells.** Colab asks for access to your Google Drive, where the runs are kept.
# 3. **If the session ends too early**, open this notebook again and run all cells once more. What is finished
#    is kept, and the run that was cut off goes on from its last checkpoint, a few minutes earlier.
# %% settings
REPO, COMMIT, NAME = "", "", ""
RUN: list[str] = []
SEEDS: list[int] = []
# %% [markdown]
# ## The GPU
# %%
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, run


def sh(*words: object) -> None:
    """Run a command and show what it prints; an error of it ends the cell."""
    with Popen([*map(str, words)], stdout=PIPE, stderr=STDOUT, text=True) as process:
        for line in process.stdout or ():
            print(line, end="")
    if process.returncode:
        raise SystemExit("It ended with an error: see the last lines above.")


if shutil.which("nvidia-smi"):
    sh("nvidia-smi", "-L")
elif "device=cuda" in RUN:
    raise SystemExit("No GPU here: choose one as step 1 at the top says, and run all cells again.")
else:
    print("No GPU here; these runs do without.")
# %% [markdown] ## A folder that survives the session Checkpoints and records go to your Google
# Drive on Colab, to `/kaggle/working` on Kaggle, and beside this notebook elsewhere. If a full
# Drive stops a run, empty its trash: old checkpoints go there. %%
HERE = Path.cwd()
KEPT = HERE / NAME
if HERE.is_relative_to("/kaggle"):
    HERE = Path("/tmp")  # for the code and the data, which can be fetched again
elif "google.colab" in sys.modules:
    from google.colab import drive, files

    drive.mount("/content/drive")
    KEPT = Path("/content/drive/MyDrive") / NAME
KEPT.mkdir(exist_ok=True)
print(KEPT)
# %% [markdown] ## The code It is the suite at the commit named above. Installing it takes a few
# minutes. If PyTorch is installed here, that version stays, since it fits the GPU's driver. %%
CODE = HERE / f"adanorm-{COMMIT[:8]}"
if not CODE.exists():
    part = CODE.with_suffix(".part")  # renamed once it is whole
    shutil.rmtree(part, ignore_errors=True)
    sh("git", "clone", "-q", REPO, part)
    sh("git", "-C", part, "checkout", "-q", COMMIT)
    part.rename(CODE)
python = [sys.executable, "-P"]  # no folder here is taken for a package
installed = [
    *python,
    "-c",
    "import hydra; from adanorm.records.environment import commit; print(commit())",
]
if run(installed, capture_output=True, text=True, check=False).stdout.strip() == COMMIT:
    print("installed already")
else:
    pins = (CODE / "constraints.txt").read_text().splitlines()
    kept = [pin for pin in pins if not (find_spec("torch") and pin.startswith("torch"))]
    (HERE / "pins.txt").write_text("\n".join(kept))
    sh(*python, "-m", "pip", "install", "-q", "-c", HERE / "pins.txt", "-e", f"{CODE}[translation]")
# %% [markdown]
# ## What it takes
# Downloads, disk, memory and the hours of one run. $runs, one after the other.
# %%
adanorm = [*python, "-m", "adanorm"]
sh(*adanorm, "plan", *RUN)
# %% [markdown] ## Train A row appears at every evaluation and every half minute; its last column is
# the time left. You may stop this cell at any moment and run it again later. %%
for seed in SEEDS:
    sh(*adanorm, "run", *RUN, f"seed={seed}", f"runs={KEPT}")
# %% [markdown] ## The file to send back It has the records of the finished runs: settings, scores,
# outputs on the test set, versions and the GPU's name; neither your name nor a path of yours. Send
# it to whoever gave you this notebook. If you do not want to wait for all runs, stop the cell above
# and run this one. %%
FILE = KEPT.with_name(f"{NAME}.jsonl.gz")
if "scale=smoke" in RUN:
    print(
        "Runs at scale smoke show that everything works. They are no evidence: there is nothing to send."
    )
else:
    sh(*adanorm, "contribute", KEPT, f"output={FILE}")
    if "google.colab" in sys.modules:
        files.download(str(FILE))
