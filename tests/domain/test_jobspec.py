"""Jobs as people write them: what is taken, and one sentence for everything else."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputui import protocol
from gputui.domain.errors import InputError
from gputui.domain.job import Demand, JobSpec
from gputui.domain.jobspec import FIELDS, JobParser, default_name, parse_job
from tests.support.counts import count

GIB = 1 << 30


def parse(**fields: object) -> JobSpec:
    job = {"argv": ["train"]} | {name.rstrip("_"): value for name, value in fields.items()}
    return parse_job(job, cwd="/home/li", env={"PATH": "/bin"}, known_types=("h100-80g", "l40s-48g"))


def test_the_fields_are_those_of_the_protocol() -> None:
    assert frozenset(protocol.JOB_FIELDS) == FIELDS


def test_a_job_that_says_nothing_gets_the_defaults() -> None:
    assert parse() == JobSpec((b"train",), b"/home/li", {b"PATH": b"/bin"}, name="train", demand=Demand(1))


def test_everything_a_job_may_say() -> None:
    spec = parse(
        argv=["sh", "a b", "\udcff", "", "x\ny"], name="名 [red]", project="base", class_="core", priority=-3, gpus=2,
        gpu_type="h100-80g, L40S-48g", gpu_memory="40GiB", share=True, duration="1h30m", datasets=["a", "b", "a"],
        hold=True, retries=2, grace="30s", checkpoint="ckpt-*.pt", env={"SEED": "1"}, cwd="/data", interactive=True,
        time_limit="2h",
    )  # fmt: skip
    assert spec == JobSpec(
        (b"sh", b"a b", b"\xff", b"", b"x\ny"), b"/data", {b"PATH": b"/bin", b"SEED": b"1"}, "名 [red]", "base", "core",
        -3, Demand(2, frozenset({"h100-80g", "l40s-48g"}), 40 * GIB, share=True), 5400.0, ("a", "b"), True, 2, 30.0,
        "ckpt-*.pt", interactive=True, time_limit=7200.0,
    )  # fmt: skip


def test_numbers_may_come_as_text_and_null_is_a_field_not_given() -> None:
    spec = parse(
        gpus="2", priority="-1", retries="3", share="no", hold="true", datasets="a, b", name="", gpu_type="any"
    )
    assert (spec.demand, spec.priority, spec.retries, spec.hold) == (Demand(2), -1, 3, True)
    assert (spec.datasets, spec.name) == (("a", "b"), "train")
    assert parse(**dict.fromkeys(["gpus", "name", "class", "env", "cwd", "duration", "datasets"])) == parse()


def test_a_job_without_gpus_has_no_demand() -> None:
    assert parse(gpus=0, gpu_type="h100-80g", gpu_memory="1G").demand == Demand(0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("argv", []), ("argv", None), ("argv", "train"), ("argv", [1]), ("argv", ["a\0b"]), ("argv", [""]),
        ("argv", ["\ud800"]), ("argv", ["a" * (1 << 17)]), ("argv", {"a": 1}),
        ("name", "n" * 201), ("name", 5), ("name", " "), ("name", "a\0"), ("project", []), ("class", "Core"),
        ("class", 1),
        ("priority", True), ("priority", 2**63), ("priority", 1.5), ("priority", "high"), ("priority", "9" * 5000),
        ("gpus", -1), ("gpus", True), ("gpus", 1.0), ("gpus", 10**30), ("gpus", math.nan), ("gpus", "two"),
        ("gpus", [1]),
        ("gpu_type", "h100"), ("gpu_type", 5), ("gpu_type", ["h100-80g", 5]), ("gpu_type", "h100-80g,,l40s-48g"),
        ("gpu_memory", "-1G"), ("gpu_memory", True), ("gpu_memory", 2**63), ("gpu_memory", math.inf),
        ("share", True), ("share", 1), ("share", "maybe"),
        ("duration", math.nan), ("duration", math.inf), ("duration", -1), ("duration", 0), ("duration", "soon"),
        ("time_limit", "0s"), ("grace", -1), ("grace", math.nan), ("grace", True),
        ("datasets", 5), ("datasets", [5]), ("datasets", [""]), ("datasets", ["d"] * 1001), ("datasets", "a,,b"),
        ("retries", -1), ("retries", 1001), ("retries", False), ("checkpoint", 5), ("checkpoint", "a\0"),
        ("checkpoint", "\udcff"),
        ("env", ["A=1"]), ("env", {"": "1"}), ("env", {"A=B": "1"}), ("env", {"A": "1\0"}), ("env", {"A": 1}),
        ("env", {"A": "x" * (1 << 17)}),
        ("env", {"A\0": "1"}), ("cwd", "relative"), ("cwd", ""), ("cwd", 5), ("cwd", "/a\0b"), ("hold", 2),
    ],
)  # fmt: skip
def test_each_bad_value_is_one_sentence_with_field_value_and_remedy(field: str, value: object) -> None:
    with pytest.raises(InputError) as refused:
        parse(**{field: value})
    assert refused.value.field == field
    sentence = str(refused.value)
    assert sentence.startswith(f"{field} is ")
    assert refused.value.remedy in sentence
    assert "\n" not in sentence
    assert len(sentence) < 400


def test_shell_takes_one_string() -> None:
    assert parse(argv=["a | b"], shell=True).shell
    for argv in (["a", "b"], [" "]):
        with pytest.raises(InputError, match=r"^argv is "):
            parse(argv=argv, shell=True)


def test_sharing_needs_a_gpu_and_its_memory() -> None:
    with pytest.raises(InputError, match="gpu_memory"):
        parse(share=True)
    with pytest.raises(InputError, match="drop share"):
        parse(share=True, gpu_memory="1G", gpus=0)


def test_an_unknown_field_is_refused_by_name_with_the_closest_one() -> None:
    with pytest.raises(InputError, match=r"^job is 'gpu': there is no such field; did you mean gpus\?$"):
        parse(gpu=1)
    with pytest.raises(InputError, match="the fields are argv, "):
        parse(zzz=1)


def test_a_secret_in_the_environment_is_not_repeated() -> None:
    with pytest.raises(InputError) as refused:
        parse(env={"TOKEN": "hush\0"})
    assert "hush" not in str(refused.value)
    with pytest.raises(InputError) as refused:
        parse(env={"TOKEN": "hush\ud800"})
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/usr/bin/python3.11", "-u", "src/train.py", "--x"], "train.py"),
        (["python", "-m", "pkg.train"], "pkg.train"),
        (["python", "-c", "print()"], "python"),
        (["./run.sh", "x.py"], "run.sh"),
        (["a/"], "a"),
        (["/"], "/"),
        (["\udcff"], "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_name_of_a_job_without_one(argv: list[str], expected: str) -> None:
    assert parse(argv=argv).name == expected


def test_the_name_of_a_shell_job_is_its_first_word() -> None:
    assert default_name((b"cd /x && make",), shell=True) == "cd"


def test_a_batch_shares_its_environment_and_equal_demands() -> None:
    parser = JobParser(cwd="/", env={"A": "1"})
    one, two = parser.parse({"argv": ["a"], "gpus": 2}), parser.parse({"argv": ["b"], "gpus": 2})
    assert one.env is two.env
    assert one.demand is two.demand


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


@settings(max_examples=count(300, 5000), deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), JSON, max_size=6), JSON)
def test_any_json_is_a_job_or_one_sentence(fields: dict[str, object], argv: object) -> None:
    try:
        spec = parse_job({"argv": argv, **fields}, cwd="/", env={})
    except InputError as refused:
        sentence = str(refused)
    else:
        sentence = spec.name.replace("\n", "")
        json.dumps(spec.duration, allow_nan=False)
    sentence.encode()
    assert "\n" not in sentence
