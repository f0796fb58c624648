"""The first schema.

Revision: 0001.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("session", sa.String(), nullable=False),
        sa.Column("act", sa.String(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("before", sa.Text()),
        sa.Column("after", sa.Text()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("prev_hash", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("ix_audit_subject", "audit", ["subject"])
    op.create_table(
        "environment",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("blob", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_table(
        "host",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("first_seen", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "setting_version",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("value", sa.JSON()),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("uid", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", "version"),
    )
    op.create_table(
        "dataset",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("host_id", sa.String(), nullable=False),
        sa.Column("location", sa.LargeBinary(), nullable=False),
        sa.Column("owner_uid", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("exists", sa.Boolean(), nullable=False),
        sa.Column("min_files", sa.BigInteger()),
        sa.Column("min_size", sa.BigInteger()),
        sa.Column("marker", sa.LargeBinary()),
        sa.Column("manifest", sa.LargeBinary()),
        sa.Column("settled", sa.Float()),
        sa.Column("readiness", sa.Float()),
        sa.Column("ready", sa.Boolean(), nullable=False),
        sa.Column("files", sa.BigInteger()),
        sa.Column("size", sa.BigInteger()),
        sa.Column("rate", sa.Float()),
        sa.Column("expected", sa.DateTime(timezone=True)),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("checked_at", sa.DateTime(timezone=True)),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"]),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "gpu",
        sa.Column("uuid", sa.String(), nullable=False),
        sa.Column("host_id", sa.String(), nullable=False),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("memory_total", sa.BigInteger()),
        sa.Column("mig_parent", sa.String(), nullable=False),
        sa.Column("baselines", sa.JSON()),
        sa.Column("first_seen", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen", sa.DateTime(timezone=True), nullable=False),
        sa.Column("cordon_reason", sa.Text()),
        sa.Column("cordon_by", sa.Text(), nullable=False),
        sa.Column("cordon_since", sa.DateTime(timezone=True)),
        sa.Column("cordon_until", sa.DateTime(timezone=True)),
        sa.Column("drain", sa.Boolean(), nullable=False),
        sa.Column("quarantine_reason", sa.Text()),
        sa.Column("quarantine_since", sa.DateTime(timezone=True)),
        sa.Column("lost_cause", sa.Text()),
        sa.Column("lost_since", sa.DateTime(timezone=True)),
        sa.Column("xid", sa.Integer()),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"]),
        sa.PrimaryKeyConstraint("uuid"),
    )
    op.create_index("ix_gpu_host_id", "gpu", ["host_id"])
    op.create_table(
        "job",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("host_id", sa.String(), nullable=False),
        sa.Column("owner_uid", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("argv", sa.LargeBinary(), nullable=False),
        sa.Column("cwd", sa.LargeBinary(), nullable=False),
        sa.Column("env_hash", sa.String(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("priority_class", sa.String(32), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("gpu_types", sa.Text(), nullable=False),
        sa.Column("gpu_memory", sa.BigInteger(), nullable=False),
        sa.Column("share", sa.Boolean(), nullable=False),
        sa.Column("duration", sa.Float()),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("grace", sa.Float(), nullable=False),
        sa.Column("checkpoint", sa.LargeBinary(), nullable=False),
        sa.Column("shell", sa.Boolean(), nullable=False),
        sa.Column("interactive", sa.Boolean(), nullable=False),
        sa.Column("time_limit", sa.Float()),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("holds", sa.String(64), nullable=False),
        sa.Column("hold_reason", sa.Text(), nullable=False),
        sa.Column("move_key", sa.Text()),
        sa.Column("moved_by", sa.Text(), nullable=False),
        sa.Column("vouched", sa.Text()),
        sa.Column("not_before", sa.DateTime(timezone=True)),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("submitted_seq", sa.BigInteger(), nullable=False),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("end_reason", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["env_hash"], ["environment.hash"]),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_job_state_ended", "job", ["state", "ended_at", "id"])
    op.create_table(
        "leader",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("host_id", sa.String(), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "gpu_minute",
        sa.Column("gpu_uuid", sa.String(), nullable=False),
        sa.Column("minute", sa.DateTime(timezone=True), nullable=False),
        sa.Column("utilization_mean", sa.Float()),
        sa.Column("utilization_max", sa.Float()),
        sa.Column("memory_mean", sa.BigInteger()),
        sa.Column("memory_max", sa.BigInteger()),
        sa.Column("power_mean", sa.Float()),
        sa.ForeignKeyConstraint(["gpu_uuid"], ["gpu.uuid"]),
        sa.PrimaryKeyConstraint("gpu_uuid", "minute"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_gpu_minute_minute", "gpu_minute", ["minute"])
    op.create_table(
        "job_dataset",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("dataset", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
        sa.PrimaryKeyConstraint("job_id", "ordinal"),
    )
    op.create_index("ix_job_dataset_dataset", "job_dataset", ["dataset"])
    op.create_table(
        "run",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("host_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("gpu_uuids", sa.Text(), nullable=False),
        sa.Column("memory_at_grant", sa.JSON(), nullable=False),
        sa.Column("pid", sa.Integer()),
        sa.Column("start_time", sa.BigInteger()),
        sa.Column("boot_id", sa.String(), nullable=False),
        sa.Column("granted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("released_at", sa.DateTime(timezone=True)),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("signal", sa.Integer()),
        sa.Column("end_reason", sa.Text()),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("resumed_from", sa.LargeBinary()),
        sa.Column("checkpoint", sa.LargeBinary()),
        sa.Column("log_dir", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"]),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"]),
        sa.PrimaryKeyConstraint("run_id"),
        sa.UniqueConstraint("job_id", "attempt", name="uq_run_job_attempt"),
    )
    op.create_index("ix_run_released", "run", ["released_at"])


def downgrade() -> None:

    op.drop_index("ix_run_released", table_name="run")
    op.drop_table("run")
    op.drop_index("ix_job_dataset_dataset", table_name="job_dataset")
    op.drop_table("job_dataset")
    op.drop_index("ix_gpu_minute_minute", table_name="gpu_minute")
    op.drop_table("gpu_minute")
    op.drop_table("leader")
    op.drop_index("ix_job_state_ended", table_name="job")
    op.drop_table("job")
    op.drop_index("ix_gpu_host_id", table_name="gpu")
    op.drop_table("gpu")
    op.drop_table("dataset")
    op.drop_table("setting_version")
    op.drop_table("meta")
    op.drop_table("host")
    op.drop_table("environment")
    op.drop_index("ix_audit_subject", table_name="audit")
    op.drop_table("audit")
