"""What MySQL is told about blobs; several statements go in one round trip, and the rows of all are answered."""

from __future__ import annotations

from holdfast.backends._sql import MYSQL
from holdfast.backends._sql_blobs import BlobStatements

NAMELESS = "FROM holdfast_blobs WHERE blob_id = %(blob)s AND digest IS NULL"
HIDDEN = "space = %(space)s AND digest = %(digest)s AND (%(before)s IS NULL OR put_at < %(before)s)"

STATEMENTS = BlobStatements(
    stage=f"""
    START TRANSACTION;
    INSERT INTO holdfast_blobs (blob_id, space, size, put_at) VALUES (%(blob)s, %(space)s, 0, {MYSQL.now})
    ON DUPLICATE KEY UPDATE put_at = {MYSQL.now};
    INSERT INTO holdfast_chunks (blob_id, n, piece) VALUES (%(blob)s, %(n)s, %(piece)s) ON DUPLICATE KEY UPDATE n = n;
    COMMIT""",
    publish=f"""
    START TRANSACTION;
    UPDATE holdfast_blobs SET put_at = GREATEST(put_at, {MYSQL.now}) WHERE space = %(space)s AND digest = %(digest)s;
    SET @holdfast_known = ROW_COUNT();
    UPDATE holdfast_blobs SET digest = %(digest)s, size = %(size)s, put_at = {MYSQL.now}
    WHERE blob_id = %(blob)s AND @holdfast_known = 0;
    SELECT blob_id = %(blob)s, put_at FROM holdfast_blobs WHERE space = %(space)s AND digest = %(digest)s;
    COMMIT""",
    find="SELECT blob_id, size FROM holdfast_blobs WHERE space = %(space)s AND digest = %(digest)s",
    read="SELECT piece FROM holdfast_chunks WHERE blob_id = %(blob)s AND n = %(n)s",
    hide=f"""
    START TRANSACTION;
    SELECT blob_id FROM holdfast_blobs WHERE {HIDDEN} FOR UPDATE;
    UPDATE holdfast_blobs SET digest = NULL WHERE {HIDDEN};
    COMMIT""",
    left="SELECT blob_id FROM holdfast_blobs WHERE space = %(space)s AND digest IS NULL AND put_at < %(before)s",
    discard=f"""
    START TRANSACTION;
    SET @holdfast_nameless = (SELECT COUNT(*) {NAMELESS} FOR UPDATE);
    DELETE FROM holdfast_chunks WHERE blob_id = %(blob)s AND @holdfast_nameless = 1 ORDER BY n LIMIT %(limit)s;
    SELECT ROW_COUNT();
    COMMIT""",
    forget=f"DELETE {NAMELESS}",
    page="SELECT digest, size, put_at FROM holdfast_blobs WHERE space = %(space)s AND digest > %(last)s"
    " ORDER BY digest LIMIT %(limit)s",
)
