"""`hold`, `release`, `cancel`, `requeue`: one act on any number of jobs, all or none."""

from gputui.cli.app import Command, JobIds, Json, Reason, Socket, client, job_ids, new_app
from gputui.cli.output import show_act

app = new_app()


@app.command(cls=Command)
def hold(ids: JobIds, reason: Reason = "", json: Json = False, socket: Socket = None) -> None:
    """Keep jobs from starting until they are released."""
    with client(socket) as daemon:
        show_act(daemon.hold(job_ids(ids), reason), json=json)


@app.command(cls=Command)
def release(ids: JobIds, reason: Reason = "", json: Json = False, socket: Socket = None) -> None:
    """Let held jobs go on."""
    with client(socket) as daemon:
        show_act(daemon.release(job_ids(ids), reason), json=json)


@app.command(cls=Command)
def cancel(ids: JobIds, reason: Reason = "", json: Json = False, socket: Socket = None) -> None:
    """Take jobs out of the queue, or end them.

    One that runs gets TERM, its grace, and then KILL.
    """
    with client(socket) as daemon:
        show_act(daemon.cancel(job_ids(ids), reason), json=json)


@app.command(cls=Command)
def requeue(ids: JobIds, reason: Reason = "", json: Json = False, socket: Socket = None) -> None:
    """Queue ended jobs again."""
    with client(socket) as daemon:
        show_act(daemon.requeue(job_ids(ids), reason), json=json)
