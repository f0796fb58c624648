"""Must hold 3, through a real daemon and its socket: jobs start in the order of the rules, one unready when it is."""

from pathlib import Path

from tests.support.daemon import daemon, until


def test_jobs_start_in_order_as_gpus_free_up(home: Path) -> None:
    diary, data = home / "diary", home / "corpus"
    data.mkdir()
    env = {"PATH": "/usr/bin:/bin"}
    wait = 'while [ ! -e "$0" ]; do sleep 0.02; done'
    record = f'echo "$GPUTUI_JOB_ID" >> {diary}; {wait}'
    with daemon(home, gpus="4xh100-80g", env={"GPUTUI_PROBE_FAST": "0.1"}) as running, running.client("one") as client:
        client.request("POST", "/datasets", {"name": "corpus", "location": str(data), "marker": "_SUCCESS"})

        def submit(script: str, *arguments: str, **fields: object) -> int:
            job = {"argv": ["/bin/sh", "-c", script, *arguments], "grace": 1, **fields}
            return client.submit({"jobs": [job], "cwd": str(home), "env": env})["job_ids"][0]

        busy = [submit(wait, str(home / f"end{n}")) for n in range(4)]
        until(lambda: client.status()["running"] == 4)
        filler = submit(record, str(home / "never"), **{"class": "filler"})
        normal = submit(record, str(home / "never"))
        unready = submit(record, str(home / "never"), datasets=["corpus"], **{"class": "core"})
        ready = submit(record, str(home / "never"), **{"class": "core"})
        rows = client.request("GET", "/jobs/window?after=10")["jobs"]
        assert [row["id"] for row in rows] == [ready, unready, normal, filler]
        assert rows[1]["reason"].startswith("data: corpus")
        assert (rows[0]["readiness"], rows[1]["readiness"]) == (1.0, 0.0)

        def began() -> list[int]:
            return [int(line) for line in diary.read_text().split()] if diary.exists() else []

        (home / "end0").touch()
        until(lambda: began() == [ready])
        (home / "end1").touch()
        until(lambda: began() == [ready, normal])
        (data / "_SUCCESS").touch()
        until(lambda: client.request("GET", f"/jobs/{unready}")["readiness"] == 1.0)
        (home / "end2").touch()
        until(lambda: began() == [ready, normal, unready])
        (home / "end3").touch()
        until(lambda: began() == [ready, normal, unready, filler])
        assert {client.request("GET", f"/jobs/{job}")["state"] for job in busy} == {"succeeded"}
