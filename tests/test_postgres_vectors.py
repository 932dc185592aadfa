"""Vectors in PostgreSQL by pgvector keep the promises of the kit; without it the client compares them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from servers.fixtures import store_of, url_of
from servers.postgres import start

from holdfast import NotFound
from holdfast.backends._postgres_vectors import LARGEST, PostgresIndex, PostgresVectors
from holdfast.backends.postgres import PostgresStore, open_url
from holdfast.client import Holdfast
from holdfast.contracts import Vector, VectorIndex
from holdfast.ids import new_id
from holdfast.testing.domain_embeddings import E1, E2, E3, found, three
from holdfast.testing.opening import new_namespace
from holdfast.testing.vector_index import VectorIndexKit

url = url_of("postgres", start)
store = store_of(open_url)


@pytest.fixture
def vectors(store: PostgresStore) -> PostgresVectors:
    found = store.vectors()
    assert found is not None
    return found


def index_of(vectors: PostgresVectors, dimension: int = 3) -> PostgresIndex:
    index = vectors.index(new_id(), dimension)
    index.seen()
    return index


class TestVectors(VectorIndexKit):
    @pytest.fixture(autouse=True)
    def _vectors(self, vectors: PostgresVectors) -> None:
        self.vectors = vectors

    def open(self, dimension: int) -> VectorIndex:
        return index_of(self.vectors, dimension)


# what several fill


def test_an_index_says_how_far_it_has_come_and_who_is_in_it(vectors: PostgresVectors) -> None:
    index = index_of(vectors)
    index.upsert([Vector(id=f"v{n}\0{n}", values=E1) for n in range(1_100)])
    index.mark(7)
    other = vectors.index(index._space, 3)
    assert other.seen() == 7
    assert sorted(other.ids()) == sorted(f"v{n}\0{n}" for n in range(1_100))
    assert index._space in vectors.spaces()


def test_an_index_that_was_dropped_takes_nothing_until_it_is_begun_anew(vectors: PostgresVectors) -> None:
    index = index_of(vectors)
    index.upsert([Vector(id="a", values=E1)])
    vectors.drop(index._space)
    with pytest.raises(NotFound):
        index.search(E1, 1)
    with pytest.raises(NotFound):
        index.upsert([Vector(id="b", values=E1)])
    assert vectors.index(index._space, 3).seen() == 0
    index.mark(9)  # it is another one now
    assert (index.seen(), index.search(E1, 1)) == (0, [])


def test_an_index_that_another_has_begun_anew_is_filled_again(store: PostgresStore, vectors: PostgresVectors) -> None:
    with Holdfast(store) as hf:
        three(hf)
        (name,) = vectors.spaces()
        vectors.drop(name)
        assert vectors.index(name, 3).seen() == 0
        assert found(hf.embeddings.search(E1)) == ["e1", "e2", "e3"]


def test_gc_removes_what_nobody_told_the_index(store: PostgresStore, vectors: PostgresVectors) -> None:
    with Holdfast(store) as hf:
        three(hf)
        late = vectors.index(vectors.spaces()[0], 3)
        late.seen()
        late.upsert([Vector(id="e1\0999", values=E2)])
        hf.gc()
        assert len(list(late.ids())) == 3
        for id in ("e1", "e2", "e3"):
            hf.embeddings.delete(id)
        hf.gc()
        assert vectors.spaces() == []
        assert vectors.ask("SELECT 1 FROM {0}.vectors WHERE space = %(space)s") == []


def test_a_vector_of_more_dimensions_than_the_server_takes_is_compared_by_the_client(store: PostgresStore) -> None:
    with Holdfast(store) as hf:
        long = [1.0] + [0.0] * LARGEST
        hf.embeddings.upsert("long", long)
        hf.embeddings.upsert("other", long[::-1])
        assert found(hf.embeddings.search(long)) == ["long", "other"]
        hf.embeddings.delete("long")
        assert found(hf.embeddings.search(long)) == ["other"]


# with and without the extension


@pytest.fixture
def database(url: str) -> Iterator[str]:
    """An address in a database of the test's own, without the extension."""
    name = f"kit_{new_id().replace('-', '_')}"
    with psycopg.connect(url, autocommit=True) as con:
        con.execute(f"CREATE DATABASE {name}".encode())
        yield make_conninfo(url, dbname=name)
        con.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_of_many_that_open_a_fresh_database_all_find_the_extension(database: str) -> None:
    stores = [PostgresStore(database) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(PostgresStore.vectors, stores))
    assert None not in made
    for store in stores:
        store.close()


def test_without_the_right_to_make_the_extension_the_client_compares(database: str) -> None:
    user = f"kit_{new_id().replace('-', '_')}"
    with psycopg.connect(database, autocommit=True) as con:
        con.execute(f"CREATE USER {user}".encode())
        con.execute(f"CREATE SCHEMA holdfast AUTHORIZATION {user}".encode())
    store = PostgresStore(make_conninfo(database, user=user))
    assert store.vectors() is None
    with Holdfast(store) as hf:
        three(hf)
        assert found(hf.embeddings.search(E3, limit=1)) == ["e3"]
    with psycopg.connect(database, autocommit=True) as con:
        con.execute("DROP SCHEMA holdfast CASCADE")
        con.execute(f"DROP USER {user}".encode())


def test_one_who_may_not_use_what_another_has_made_compares_by_itself(database: str) -> None:
    user = f"kit_{new_id().replace('-', '_')}"
    with psycopg.connect(database, autocommit=True) as con:
        con.execute(f"CREATE USER {user}".encode())
        con.execute(f"CREATE SCHEMA holdfast AUTHORIZATION {user}".encode())
    with Holdfast(PostgresStore(make_conninfo(database, user=user))) as hf:
        with Holdfast(PostgresStore(database)) as other:
            three(other)
            assert found(other.embeddings.search(E1)) == ["e1", "e2", "e3"]
        with Holdfast(PostgresStore(make_conninfo(database, user=user))) as again:
            assert found(again.embeddings.search(E1)) == ["e1", "e2", "e3"]
        hf.embeddings.delete("e1")
    with Holdfast(PostgresStore(database)) as other:
        assert found(other.embeddings.search(E1)) == ["e2", "e3"]
    with psycopg.connect(database, autocommit=True) as con:
        con.execute("DROP SCHEMA holdfast CASCADE")
        con.execute(f"DROP USER {user}".encode())


def test_the_extension_is_found_in_whatever_schema_it_is(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as con:
        con.execute('CREATE SCHEMA "Else where"')
        con.execute('CREATE EXTENSION vector SCHEMA "Else where"')
    with Holdfast(PostgresStore(database)) as hf:
        three(hf)
        assert found(hf.embeddings.search(E2, limit=1)) == ["e2"]


def test_the_address_may_leave_vectors_to_the_client(url: str) -> None:
    store = open_url(f"{url}?pgvector=off", namespace=new_namespace())
    assert store.vectors() is None
    with Holdfast(store) as hf:
        three(hf)
        assert found(hf.embeddings.search(E1)) == ["e1", "e2", "e3"]


def test_one_who_only_reads_compares_by_itself(url: str) -> None:
    namespace = new_namespace()
    with Holdfast(open_url(url, namespace=namespace)) as hf:
        three(hf)
    reader = open_url(url, namespace=namespace, read_only=True)
    assert reader.vectors() is None
    with Holdfast(reader) as hf:
        assert found(hf.embeddings.search(E1)) == ["e1", "e2", "e3"]
