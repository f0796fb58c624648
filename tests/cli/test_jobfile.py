"""Files of jobs: what each format means, and that what is wrong is named with its line."""

import io
import json

import pytest

from gputui.cli.jobfile import read_jobs
from gputui.client import ClientError


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_json_lines_keep_every_value_and_skip_blank_lines(tmp_path):
    jobs = [{"argv": ["a", "b c"], "gpus": 2}, {"argv": ["\udcff"], "name": "训练"}]
    path = written(tmp_path, "jobs.jsonl", "\n\n".join(json.dumps(job) for job in jobs))
    assert list(read_jobs(path)) == jobs


def test_toml_has_one_table_per_job(tmp_path):
    path = written(
        tmp_path, "jobs.toml", '[[job]]\nargv = ["a"]\ngpus = 2\n[[job]]\nargv = ["b"]\nduration = "1h30m"\n'
    )
    assert list(read_jobs(path)) == [{"argv": ["a"], "gpus": 2}, {"argv": ["b"], "duration": "1h30m"}]


def test_csv_splits_argv_datasets_and_env_and_leaves_empty_cells_out(tmp_path):
    text = (
        "argv,name,gpus,datasets,env,shell\n"
        '"python train.py --name \'two words\'",first,2,"a, b",K=V X=y,\n'
        '"echo a | wc",,,,,true\n'
    )
    first, second = read_jobs(written(tmp_path, "jobs.csv", b"\xef\xbb\xbf" + text.encode()))
    assert first == {
        "argv": ["python", "train.py", "--name", "two words"],
        "name": "first",
        "gpus": "2",
        "datasets": ["a", "b"],
        "env": {"K": "V", "X": "y"},
    }
    assert second == {"argv": ["echo a | wc"], "shell": "true"}


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("jobs.jsonl", '{"argv": ["a"]}\n{"argv": \n', "line 2"),
        ("jobs.jsonl", '{"argv": ["a"]}\n\n["argv"]\n', "line 3"),
        ("jobs.jsonl", b"\xff\xfe\n", "line 1"),
        ("jobs.jsonl", '{"argv": ["' + "x" * (1 << 20) + '"]}', "line 1"),
        ("jobs.toml", "[[job]\n", "line 1"),
        ("jobs.toml", '[[jobs]]\nargv = ["a"]\n', "jobs"),
        ("jobs.csv", "argv,gpus\na,1\nb\n", "line 3"),
        ("jobs.csv", "argv,gpus\n'a,1\n", "line 2"),
        ("jobs.csv", "argv,env\na,K\n", "line 2"),
        ("jobs.txt", "", "jobs.txt"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path, name, text, named):
    with pytest.raises(ClientError) as caught:
        list(read_jobs(written(tmp_path, name, text)))
    assert caught.value.code == "bad_input"
    assert named in caught.value.message


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(ClientError, match="No such file"):
        list(read_jobs(str(tmp_path / "none.jsonl")))


def test_standard_input_is_json_lines(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b'{"argv": ["a"]}\n')

    monkeypatch.setattr("sys.stdin", Stdin)
    assert list(read_jobs("-")) == [{"argv": ["a"]}]
