"""PYTHONPATH=../../sdk/python python3 -m unittest, in this folder."""

import asyncio
import unittest

import main
from agent_platform import DependencyCallError

TEAMS = {"payments": "cards", "shop": "pages"}
HEADER = "id,subject,message\n"


def ticket(number, message="It broke."):
    return f"{number},Subject {number},{message}\n"


class Agents:
    """Stands in for the platform: answers by agent and subject, and remembers what was asked."""

    def __init__(self, **answers):
        self.answers = answers
        self.calls = []
        self.running = 0
        self.most_running = 0

    async def call(self, agent, input, timeout):
        self.calls.append((agent, input))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if agent.endswith("csv-insights@v1"):
            answer = self.answers.get("table", {"summary": "fine", "findings": [{"message": "a gap"}]})
        else:
            answer = self.answers.get(input["subject"].split()[1], triaged())
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def triaged(**more):
    return {
        "category": "bug",
        "urgency": 3,
        "team": "shop",
        "summary": "It broke.",
        "language": "en",
        "missing": [],
        "suspicious": False,
        "reply": "We look.",
        **more,
    }


def refused(code="LLM_KEY_REQUIRED", **more):
    return DependencyCallError("no key", code=code, status=400, **more)


def digest(csv, agents):
    return asyncio.run(main.digest({"csv": csv, "product": "Larder", "teams": TEAMS}, agents))


class Digest(unittest.TestCase):
    def test_sorts_by_urgency(self):
        agents = Agents(**{"2": triaged(urgency=1, team="payments")})
        answer = digest(HEADER + ticket(1) + ticket(2), agents)
        self.assertEqual(answer["summary"], "2 of 2 tickets sorted, 1 of them urgent: payments 1, shop 1")
        self.assertEqual([each["id"] for each in answer["tickets"]], ["2", "1"])
        self.assertEqual(answer["export"], {"summary": "fine", "findings": ["a gap"]})
        self.assertEqual((answer["complete"], answer["failed"]), (True, []))

    def test_calls_the_pinned_versions_at_once(self):
        agents = Agents()
        digest(HEADER + "".join(ticket(number) for number in range(20)), agents)
        self.assertEqual({agent for agent, _ in agents.calls}, {"main/csv-insights@v1", "main/ticket-triage@v1"})
        self.assertEqual(agents.most_running, main.AT_ONCE + 1)

    def test_failures_are_part_of_the_answer(self):
        agents = Agents(table=refused("TIMEOUT"), **{"1": refused(), "3": "no object", "4": triaged(team="magic")})
        answer = digest(HEADER + "".join(ticket(number) for number in range(1, 6)) + ticket(6, ""), agents)
        self.assertEqual(
            [(each["id"], each["error"]["code"]) for each in answer["failed"]],
            [("1", "LLM_KEY_REQUIRED"), ("3", "UNUSABLE"), ("6", "EMPTY")],
        )
        self.assertEqual(answer["export"], {"error": {"code": "TIMEOUT", "message": "no key"}})
        self.assertEqual(answer["summary"], "3 of 6 tickets sorted, 0 of them urgent: shop 2, nobody 1")
        self.assertFalse(answer["complete"])

    def test_tries_again_what_may_go_well_later(self):
        later = refused("LLM_RATE_LIMITED", is_retryable=True, suggested_wait_time=0.01)
        agents = Agents(**{"1": [later, triaged()], "2": [refused(), triaged()]})
        answer = digest(HEADER + ticket(1) + ticket(2), agents)
        self.assertEqual([each["id"] for each in answer["tickets"]], ["1"])
        self.assertEqual([each["id"] for each in answer["failed"]], ["2"])

    def test_fails_when_nothing_came_of_any_ticket(self):
        with self.assertRaisesRegex(main.InputError, "none of the 2 tickets could be sorted; LLM_KEY_REQUIRED: no key"):
            digest(HEADER + ticket(1) + ticket(2), Agents(**{"1": refused(), "2": refused()}))

    def test_wrong_tables(self):
        for csv, message in [
            ("id,text\n1,x\n", "must have the columns id, subject, message, but subject, message is not"),
            (HEADER, "must have 1 to 25 tickets, but has 0"),
            (HEADER + "".join(ticket(number) for number in range(26)), "but has 26"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(main.InputError, message):
                digest(csv, Agents())

    def test_a_quoted_message_has_lines(self):
        agents = Agents()
        digest(HEADER + '7,Subject 7,"one\n\ntwo, three"\n', agents)
        self.assertEqual(agents.calls[-1][1]["message"], "one\n\ntwo, three")


if __name__ == "__main__":
    unittest.main()
