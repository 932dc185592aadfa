"""Where a search looks: scopes, branches and forks, what is gone, and what nobody has indexed yet."""

from __future__ import annotations

from datetime import timedelta

from holdfast.client import Holdfast
from holdfast.contracts import RecordStore, SearchesText
from holdfast.model import Agent, Message
from holdfast.testing.domain_branches import fork_in_the_road
from holdfast.testing.domain_search import said, seen
from holdfast.testing.driving import NOON, Again, HoldfastKit, users
from holdfast.testing.opening import new_namespace


class SearchReachKit(HoldfastKit):
    """Which messages `hf.search` looks at."""

    # where it looks

    def test_a_search_keeps_to_its_scope(self, hf: Holdfast) -> None:
        for agent, user in (("a", "u"), ("a", "v"), ("b", "u")):
            said(hf, f"ryokan {agent} {user}", id=f"{agent}{user}", agent_id=agent, user_id=user)
        assert len(hf.search("ryokan")) == 3
        assert seen(hf.search("ryokan", agent_id="a")) == {"ryokan a u", "ryokan a v"}
        assert seen(hf.search("ryokan", user_id="u")) == {"ryokan a u", "ryokan b u"}
        assert seen(hf.search("ryokan", session_id="av")) == {"ryokan a v"}
        assert seen(hf.search("ryokan", agent_id="b", user_id="v")) == set()
        assert seen(hf.search("ryokan", session_id="none")) == set()

    def test_roles_and_times_narrow_a_search(self, hf: Holdfast) -> None:
        hf.sessions.create(id="s", title="t")
        times = [NOON + timedelta(hours=hour) for hour in range(3)]
        asked, answered, later = (
            Message.user("ryokan 0", created_at=times[0]),
            Message.assistant("ryokan 1", created_at=times[1]),
            Message.tool_result("c", "ryokan 2", created_at=times[2]),
        )
        hf.sessions.append("s", asked, answered, later)
        assert seen(hf.search("ryokan", role="assistant")) == {"ryokan 1"}
        assert seen(hf.search("ryokan", created_after=times[1])) == {"ryokan 1", "ryokan 2"}
        assert seen(hf.search("ryokan", created_before=times[1])) == {"ryokan 0"}
        assert seen(hf.search("ryokan", created_after=times[1], created_before=times[2])) == {"ryokan 1"}

    def test_every_branch_is_searched(self, hf: Holdfast, again: Again) -> None:
        fork_in_the_road(hf)
        hf.sessions.switch("s", 1)
        hf = again()
        assert {query: len(hf.search(query, session_id="s")) for query in ("m1", "m2", "m3")} == {
            "m1": 1,
            "m2": 1,
            "m3": 1,
        }

    def test_a_message_shared_with_a_fork_is_found_once_in_its_own_session(self, hf: Holdfast) -> None:
        first, _ = said(hf, "ryokan shared", "ryokan mine")
        hf.sessions.fork("s", at=first.id, id="f")
        hf.sessions.append("f", *users("ryokan theirs"))
        assert {(one.message.text, one.session_id) for one in hf.search("ryokan")} == {
            ("ryokan shared", "s"),
            ("ryokan mine", "s"),
            ("ryokan theirs", "f"),
        }
        in_fork = hf.search("ryokan", session_id="f")
        assert {(one.message.text, one.session_id) for one in in_fork} == {
            ("ryokan shared", "f"),
            ("ryokan theirs", "f"),
        }

    def test_an_agent_that_forked_finds_what_it_shares(self, hf: Holdfast) -> None:
        said(hf, "ryokan", agent_id="a")
        hf.sessions.fork("s", id="f")
        hf.sessions.update("f", agent_id="b")
        assert [one.session_id for one in hf.search("ryokan", agent_id="b")] == ["f"]

    # what is gone

    def test_a_detached_session_is_not_searched_until_it_is_attached(self, hf: Holdfast) -> None:
        hf.agents.save(Agent(id="a", name=""))
        before = hf.checkpoints.create("a")
        said(hf, "ryokan", agent_id="a")
        assert len(hf.search("ryokan")) == 1
        hf.checkpoints.restore(before.id)
        assert hf.search("ryokan") == hf.search("ryokan", session_id="s") == hf.search("ryokan", agent_id="a") == []
        hf.sessions.attach("s")
        assert len(hf.search("ryokan")) == 1

    def test_what_is_deleted_is_no_longer_found(self, hf: Holdfast, again: Again) -> None:
        first, _ = said(hf, "ryokan shared", "ryokan mine")
        hf.sessions.fork("s", at=first.id, id="f")
        said(hf, *(f"ryokan {n}" for n in range(40)), id="many")
        assert len(hf.search("ryokan", limit=100)) == 42
        hf.sessions.delete("s")
        hf.sessions.delete("many")
        hf = again()
        assert [(one.message.text, one.session_id) for one in hf.search("ryokan")] == [("ryokan shared", "f")]
        assert hf.search("mine") == hf.search("39") == []

    def test_what_is_redacted_is_no_longer_found(self, hf: Holdfast, again: Again) -> None:
        first, _ = said(hf, "my ryokan", "a ryokan")
        assert len(hf.search("ryokan")) == 2
        hf.sessions.redact("s", first.id, "asked to")
        hf = again()
        assert seen(hf.search("ryokan")) == {"a ryokan"}
        assert hf.search("my") == hf.search("my", substring=True) == []

    def test_a_session_made_again_under_its_id_finds_only_its_own(self, hf: Holdfast) -> None:
        said(hf, "old ryokan")
        assert len(hf.search("ryokan")) == 1
        hf.sessions.delete("s")
        said(hf, "new ryokan")
        assert seen(hf.search("ryokan")) == {"new ryokan"}

    # who has indexed what

    def test_what_comes_after_a_search_is_found_by_the_next(self, hf: Holdfast, again: Again) -> None:
        said(hf, "ryokan 1")
        assert seen(hf.search("ryokan")) == {"ryokan 1"}
        hf.sessions.append("s", *users("ryokan 2"))
        hf = again()
        hf.sessions.append("s", *users("ryokan 3"))
        assert seen(hf.search("ryokan")) == {"ryokan 1", "ryokan 2", "ryokan 3"}

    def test_a_namespace_finds_nothing_of_another(self, hf: Holdfast) -> None:
        said(hf, "ryokan mine")
        with Holdfast(self.open(new_namespace())) as other:
            said(other, "ryokan theirs")
            assert seen(other.search("ryokan")) == {"ryokan theirs"}
            assert seen(hf.search("ryokan")) == {"ryokan mine"}

    def test_progress_says_how_much_is_indexed_of_how_much(self, hf: Holdfast, store: RecordStore) -> None:
        said(hf, *(f"ryokan {n}" for n in range(600)))
        told = list[tuple[int, int]]()
        assert len(hf.search("ryokan", limit=1000, progress=lambda done, of: told.append((done, of)))) == 600
        assert told == ([(500, 600), (600, 600)] if isinstance(store, SearchesText) else [])
