"""What PostgreSQL is told about blobs; {0} is the schema."""

from __future__ import annotations

from holdfast.backends._sql import POSTGRES
from holdfast.backends._sql_blobs import BlobStatements

STATEMENTS = BlobStatements(
    stage=f"""
    WITH named AS (
        INSERT INTO {{0}}.blobs (blob, space, size, put_at) VALUES (%(blob)s, %(space)s, 0, {POSTGRES.now})
        ON CONFLICT (blob) DO UPDATE SET put_at = EXCLUDED.put_at
    )
    INSERT INTO {{0}}.chunks (blob, n, bytes) VALUES (%(blob)s, %(n)s, %(piece)s) ON CONFLICT DO NOTHING""",
    publish=f"""
    WITH known AS (
        UPDATE {{0}}.blobs SET put_at = greatest(put_at, {POSTGRES.now})
        WHERE space = %(space)s AND digest = %(digest)s RETURNING blob, put_at
    ), mine AS (
        UPDATE {{0}}.blobs SET digest = %(digest)s, size = %(size)s, put_at = {POSTGRES.now}
        WHERE blob = %(blob)s AND NOT EXISTS (SELECT FROM known) RETURNING blob, put_at
    )
    SELECT blob = %(blob)s, put_at FROM known UNION ALL SELECT true, put_at FROM mine""",
    find="SELECT blob, size FROM {0}.blobs WHERE space = %(space)s AND digest = %(digest)s",
    read="SELECT bytes FROM {0}.chunks WHERE blob = %(blob)s AND n = %(n)s",
    hide="""
    UPDATE {0}.blobs SET digest = NULL WHERE space = %(space)s AND digest = %(digest)s
    AND (%(before)s::bigint IS NULL OR put_at < %(before)s::bigint) RETURNING blob""",
    left="SELECT blob FROM {0}.blobs WHERE space = %(space)s AND digest IS NULL AND put_at < %(before)s",
    discard="""
    WITH nameless AS (SELECT blob FROM {0}.blobs WHERE blob = %(blob)s AND digest IS NULL FOR UPDATE), gone AS (
        DELETE FROM {0}.chunks
        WHERE (blob, n) IN (SELECT blob, n FROM {0}.chunks JOIN nameless USING (blob) LIMIT %(limit)s) RETURNING 1
    )
    SELECT count(*) FROM gone""",
    forget="DELETE FROM {0}.blobs WHERE blob = %(blob)s AND digest IS NULL",
    page="SELECT digest, size, put_at FROM {0}.blobs WHERE space = %(space)s AND digest > %(last)s"
    " ORDER BY digest LIMIT %(limit)s",
)
