"""The suite's import of fairseq, which takes seconds and writes into Hydra's registry."""

import copy
import logging
import platform
import sys
import warnings
from functools import cache
from typing import Any

from adanorm.config.paths import install_command

# Its progress bars would import these, which takes a second; the suite shows none of them.
TRACKERS = ("wandb", "tensorboardX", "torch.utils.tensorboard")
registries: list[Any] = []  # Hydra's after fairseq's import: fairseq's own command line needs it


@cache
def fairseq() -> Any:
    """Return the fairseq package with the submodules that the suite uses.

    Raises ValueError if not installed. Its import registers groups such as `task` and `model` in
    Hydra's ConfigStore, where a later composition could find them instead of ours. It also sets up
    the root logger. Both are restored.
    """
    from hydra.core.config_store import ConfigStore

    store, root = ConfigStore.instance(), logging.getLogger()
    registry, handlers, level = copy.deepcopy(store.repo), root.handlers[:], root.level
    hidden = [name for name in TRACKERS if name not in sys.modules]
    logging.disable(logging.WARNING)
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: not installed
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit.script
            import fairseq.data.indexed_dataset
            import fairseq.models.transformer
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "fairseq":
            raise
        has_wheels = sys.version_info < (3, 13) and (sys.platform, platform.machine()) == (
            "linux",
            "x86_64",
        )
        python = sys.executable if has_wheels else "python3.12"
        raise ValueError(
            "translation needs fairseq, which is not installed here; the extra `translation` has it on x86_64"
            f" Linux, Python 3.11 and 3.12: {install_command('translation', python)}"
        ) from None
    finally:
        for name in hidden:
            del sys.modules[name]
        logging.disable(logging.NOTSET)
        registries.append(store.repo)
        store.repo = registry
        root.handlers, root.level = handlers, level
    # fairseq passes attention a boolean and a float mask together; torch adds them, as intended.
    warnings.filterwarnings("ignore", message="Support for mismatched key_padding_mask")
    return fairseq
