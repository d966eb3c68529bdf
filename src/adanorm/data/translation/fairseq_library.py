"""The one door to fairseq: its import takes seconds and writes into Hydra's registry."""

import copy
import logging
import platform
import sys
import warnings
from functools import cache
from typing import Any

from adanorm.config.paths import install_command

registries: list[Any] = []  # Hydra's, as fairseq's import leaves it: its own command line needs that


@cache
def fairseq() -> Any:
    """Return the fairseq package, with the submodules that the suite uses.

    Importing it registers groups such as `task` and `model` in Hydra's ConfigStore, where a later
    composition could find them instead of ours, and sets up the root logger; both are put back.
    Raises ValueError where it is not installed.
    """
    from hydra.core.config_store import ConfigStore

    store, root = ConfigStore.instance(), logging.getLogger()
    kept, handlers, level = copy.deepcopy(store.repo), root.handlers[:], root.level
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit.script
            import fairseq.data.indexed_dataset
            import fairseq.models.transformer
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != "fairseq":
            raise
        has_wheels = sys.version_info < (3, 13) and (sys.platform, platform.machine()) == ("linux", "x86_64")
        python = sys.executable if has_wheels else "python3.12"
        raise ValueError(
            "translation needs fairseq, which is not installed here; the extra `translation` has it on x86_64"
            f" Linux, Python 3.11 and 3.12: {install_command('translation', python)}"
        ) from None
    finally:
        logging.disable(logging.NOTSET)
        registries.append(store.repo)
        store.repo = kept
        root.handlers, root.level = handlers, level
    # fairseq gives attention a boolean and a float mask together; their sum is what it means.
    warnings.filterwarnings("ignore", message="Support for mismatched key_padding_mask")
    return fairseq
