"""Mistakes to make in command lines, in studies and in records."""

# YAML of a few hundred characters whose aliases stand for over 10**12 values.
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(12)
)
# Whatever command gets one of these must refuse it.
NONSENSE = (
    "nosuch=1", "training.lrr=1", "--nope", "-x", "--cfg", "=", "=1", "a b=1", "++", "~", "x=[", "x={",
    "task=", "task=nosuch", "norm=nosuch", "norm=os:system", "norm=no.such:Norm", "norm=builtins:print",
    "norm=my.Norm", "norm.path=x", "scale=huge", "seed=1.5", "seed=-1", "seed=true", "seed=99999999999",
    "training.lr=true", "training.lr=nan", "training.lr=-1", "training.max_epochs=0",
    "model.dim=1000000000000", "data.batch_tokens=true", "norm.params.nosuch=1", "norm.placement=[]",
    "norm.placement=[nowhere.*]", "task.metric=nosuch", "task.kind=translation", "task.name=../../x",
    "device=tpu", "logger=nosuch", "precision=fp8", "\xfc=1", "seed=\x00",
)  # fmt: skip
VALUES = (
    "true", "null", "''", "[]", "{}", "[1,2,3]", "{a: 1}", "nan", "-inf", "1e999", "-1", "0", "1e-300",
    "3.5", "fast", "99999999999999999999", "../../x", "/nowhere", "a b", "\xfc", "${seed}", "${nowhere}",
    "'", "1,2", "\t", "x" * 300,
)  # fmt: skip
OWN = "title: t\nrows: [layernorm, adanorm]\ncolumns: [gaussian]\nscale: smoke\nseeds: [1]\n"
STUDY_LINES = (
    "seeds: [1, 1]", "seeds: []", "seeds: [true]", "seeds: [-1]", "seeds: 1", "scale: big", "rows: []",
    "rows: 3", "columns: [nosuch]", "columns: [rt, rt]", "overrides: [norm=layernorm]",
    "overrides: [seed=2]", "overrides: 7", "overrides: ['runs=/x']", "overrides: [task=rt]",
    "overrides: ['+task=rt']", "overrides: ['~norm']", "overrides: [hydra.run.dir=x]",
    "budget: [scale=paper]", "budget: [training.lr=-1]", "nosuch: 1", "title: [",
    "rows: {a: {norm: os:system}}", "rows: {a: {norm: adanorm, nosuch: 1}}", "improvements: [[a, b]]", "\t",
    "- a", "rows: {a: {norm: adanorm, overrides: ['norm.name=layernorm']}}",
    "title: !!python/object/apply:os.system [id]",
)  # fmt: skip
