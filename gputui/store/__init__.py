"""What is kept: SQLModel tables, migrations, transactions, queries, the audit log."""
