"""Tool-heavy: an engineer and a model look for the cause of a failing checkout, 13 turns with up to four tool "
"rounds."""

from __future__ import annotations

from writing.operations import (
    EVENTS_CLIENT,
    POOL_SETTINGS,
    STOCK_SERVICE,
    activity,
    log_lines,
    metric,
    plan_of,
    releases,
)
from writing.parts import Json, Telling, call, said, tool

SYSTEM = """You help the engineers who run a web shop. You can read logs, metrics, releases, code and the state of \
databases, and you change nothing.

Say what you look at and why, in one sentence, before you call a tool. Call tools together when they do not depend \
on each other. Look at the numbers before you form an opinion, and name the line or the minute that an opinion rests \
on. When two explanations are possible, say what would tell them apart and look there. Do not quote more of a log \
than is needed. When you have found a cause, say how sure you are, what it does not explain, and what a safe first \
step would be. People read you in the middle of an incident: begin with the answer."""

TOOLS = [
    tool(
        "search_logs",
        "Lines of a service's log in a minute of today. Gives at most 200 lines, oldest first.",
        kind="search",
        service="The service, such as checkout.",
        minute="The minute, such as 09:20.",
        contains="Text that every line holds; empty for all.",
    ),
    tool(
        "get_metric",
        "A metric of a service, one value for each minute.",
        service="The service.",
        name="latency_p99, error_rate, pool_waiting, pool_active, lock_wait or publish_time.",
    ),
    tool("list_releases", "The newest releases of all services, newest first.", count="How many."),
    tool("read_file", "A file of a service's repository as it was released.", service="The service.", path="The path."),
    tool("database_activity", "The open sessions of a service's database.", service="The service."),
    tool("explain_query", "How the database runs a query.", service="The service.", query="The SQL text."),
]


def logs(id: str, service: str, minute: int, count: int, contains: str = "") -> Json:
    """A look into a log."""
    level = "ERROR" if contains else ""
    lines = log_lines(sum(map(ord, id)), service, minute, count, level)
    return call(id, "search_logs", lines, 900, service=service, minute=f"09:{minute:02d}", contains=contains)


def value(id: str, service: str, name: str, unit: str, base: int, peak: int) -> Json:
    """A metric."""
    result = metric(sum(map(ord, id)), f"{service} {name}", unit, base, peak)
    return call(id, "get_metric", result, 400, service=service, name=name)


def source(id: str, service: str, path: str, text: str) -> Json:
    """A file."""
    return call(id, "read_file", text, 300, service=service, path=path)


def trace() -> Json:
    """13 turns; the calls of a step run together."""
    telling = Telling("2026-03-11T10:04:00+01:00")
    turn = telling.turn
    turn(
        "Checkout failed for about ten minutes this morning, around 9:20 UTC. Support has 40 tickets. What happened?",
        said(
            "I look at checkout's errors and latency around that time.",
            logs("a1", "checkout", 20, 40),
            value("a2", "checkout", "error_rate", "percent", 1, 34),
            thought="The person names checkout, but the cause may lie below it. Start with the symptom and its times.",
        ),
        said(
            "Checkout waits for stock. I look there: its log, and how many requests wait for a connection.",
            logs("a3", "stock", 20, 45, "pool"),
            value("a4", "stock", "pool_waiting", "requests", 0, 210),
        ),
        said(
            "Stock ran out of database connections. From 09:14 on requests waited for one, at 09:20 over two "
            "hundred of "
            "them, and each gave up after three seconds; checkout retried and then opened its circuit breaker, "
            "which is "
            "what your customers saw. It was over by 09:27. I don't know yet why the connections were held; next "
            "I would "
            "look at what the sessions were doing, and at what was released last.",
            thought="Pool exhaustion is a symptom too. Say what is known and what is not.",
        ),
    )
    turn(
        "Was anything released before that?",
        said("I list the newest releases.", call("b1", "list_releases", releases(5, 14), 500, count="14")),
        said(
            "Yes. Of the releases before 09:14 one touches stock: “reserve every position of an order in one "
            "transaction”, from yesterday afternoon. It would hold a connection longer than before. The others concern "
            "mail, search and pictures, and can't take connections of this pool."
        ),
    )
    turn(
        "Show me what that change does.",
        said(
            "I read the service and the settings of its pool.",
            source("c1", "stock", "stock/service.py", STOCK_SERVICE),
            source("c2", "stock", "config/pool.ini", POOL_SETTINGS),
        ),
        said(
            "For each position the code publishes an event, and I want to know whether it waits for the broker.",
            source("c3", "stock", "stock/events.py", EVENTS_CLIENT),
        ),
        said(
            "`reserve` now opens one transaction for all positions. Inside it, after each UPDATE, it publishes "
            "an event "
            "and waits for the broker's confirmation, up to ten seconds. So row locks and a connection are held while "
            "somebody else's system answers. With twelve positions and a slow broker that is easily more than "
            "the three "
            "seconds after which others give up. Before the change each position had its own short transaction.",
            thought="Locks held across a network call. That fits, if the broker was slow at that time.",
        ),
    )
    turn(
        "Sounds plausible, but why only at 9:20? It was released yesterday.",
        said(
            "Then something else must have been slow. I compare the broker's confirmations with the lock waits.",
            value("d1", "stock", "publish_time", "milliseconds", 8, 1900),
            value("d2", "stock", "lock_wait", "milliseconds", 2, 2600),
            value("d3", "stock", "pool_active", "connections", 6, 40),
        ),
        said(
            "I check whether many orders held the same article at that time.",
            logs("d4", "stock", 17, 50),
        ),
        said(
            "The broker was slow from 09:12 to 09:26: a confirmation took up to 1.9 seconds instead of 8 "
            "milliseconds. Lock "
            "waits follow it with a delay of about a minute, and the pool is full when both are high. Yesterday "
            "the broker "
            "was quick, so nothing was seen. The change made stock sensitive to the broker; the broker did the rest."
        ),
    )
    turn(
        "Can you see it in the database right now? There's a sale starting in an hour and I'd like to know the risk.",
        said(
            "I look at the open sessions.",
            call("e1", "database_activity", activity(11, 34), 600, service="stock"),
        ),
        said(
            "At this moment most sessions are idle in a transaction and wait for the client, up to eight "
            "seconds: that is "
            "the service waiting for the broker. A third wait for a row lock. With forty connections there is room for "
            "about twice today's orders. If the sale triples them, expect the same failure even with a healthy broker.",
        ),
    )
    turn(
        "What's the least invasive thing I can do in the next half hour?",
        said(
            "Roll stock back to the release before yesterday's change. It touches no schema, so going back is "
            "safe, and the "
            "old code holds a lock for milliseconds. If you can't roll back, lower the broker's timeout to 300 "
            "milliseconds: then a slow broker loses events, which stock's nightly reconciliation repairs. I "
            "would not raise "
            "the pool to more than 60; the database allows 200 sessions in all, and five other services want theirs.",
            thought="No tool needed. Order by risk.",
        ),
    )
    turn(
        "Rolling back now. Keep an eye on the metrics.",
        said(
            "I look at lock waits and the pool.",
            value("g1", "stock", "lock_wait", "milliseconds", 2, 6),
            value("g2", "stock", "pool_active", "connections", 5, 9),
        ),
        said("And at whether checkout still reports anything.", logs("g3", "checkout", 48, 24)),
        said(
            "Lock waits are down to a few milliseconds and no more than nine connections are in use. Checkout "
            "still writes "
            "some errors at 09:48; they are retries of orders that began before you rolled back. I would look "
            "again in ten "
            "minutes, before the sale starts."
        ),
    )
    turn(
        "While we wait: search felt slow to me this morning too. Same cause?",
        said(
            "I look at search by itself, and at its query.",
            value("h1", "search", "latency_p99", "milliseconds", 90, 140),
            logs("h2", "search", 20, 30),
            call(
                "h3",
                "explain_query",
                plan_of(184_000),
                800,
                service="stock",
                query="SELECT * FROM stock WHERE warehouse = 'north' ORDER BY changed LIMIT 50",
            ),
        ),
        said(
            "No. Search's slowest percentile went from 90 to 140 milliseconds, which is noticeable and "
            "unrelated: it reads "
            "its own index. What is slow is the stock listing that its pages embed. The query walks an index on "
            "the time "
            "of change and throws away a third of the rows that it reads. An index on warehouse and time would make it "
            "about ten times quicker. It is not urgent."
        ),
    )
    turn(
        "Note that for later. Sale starts in five minutes, look again please.",
        said(
            "The same three metrics, and checkout's errors.",
            value("i1", "stock", "lock_wait", "milliseconds", 2, 9),
            value("i2", "stock", "pool_active", "connections", 6, 12),
            value("i3", "checkout", "error_rate", "percent", 0, 1),
            logs("i4", "checkout", 55, 20),
        ),
        said("All quiet: lock waits below ten milliseconds, twelve connections at most, and no new error in checkout."),
    )
    turn(
        "Sale is on. Numbers?",
        said(
            "I look at load and locks.",
            value("j1", "stock", "pool_active", "connections", 14, 27),
            value("j2", "stock", "publish_time", "milliseconds", 9, 60),
        ),
        said(
            "Twenty-seven of forty connections at the peak, and the broker confirms within 60 milliseconds. You "
            "have room. "
            "If connections go over 35 for more than a minute, I would pause the product feed, which reserves in bulk."
        ),
    )
    turn(
        "Good. Now help me write the fix properly: where should the events go?",
        said(
            "I read the service once more to name the lines.",
            source("k1", "stock", "stock/service.py", STOCK_SERVICE),
            thought="Outbox pattern. Keep one transaction, which they wanted for atomicity.",
        ),
        said(
            "Keep the single transaction; it is what makes an order whole. Take the network out of it: write "
            "each event as "
            "a row into an outbox table in the same transaction, and let a separate task read that table, publish, and "
            "delete. Then a slow broker delays events and holds nothing. Lock the rows in the order of the "
            "article number, "
            "or two orders with the same articles in another order can block each other. And set "
            "`idle_in_transaction_session_timeout_ms` to 5000, so that the database ends what hangs."
        ),
    )
    turn(
        "Would the task that reads the outbox publish twice after a crash?",
        said(
            "Yes: if it dies between the confirmation and the delete, it publishes again. Give each event the id "
            "of its "
            "row and let consumers ignore an id that they know; mail already does so, search doesn't care, and "
            "only the "
            "warehouse export would count twice, so that is the one to change first."
        ),
    )
    turn(
        "Write me the summary for the incident page, please.",
        said(
            "On 11 March from 09:14 to 09:27 UTC up to a third of all checkouts failed. The stock service had no free "
            "database connection: since the release of 10 March it reserves all positions of an order in one "
            "transaction "
            "and waits inside it for the message broker, and from 09:12 on the broker answered slowly. Requests "
            "waited for "
            "a connection, gave up after three seconds, and checkout stopped asking. It ended when the broker "
            "recovered. At "
            "09:45 the release was rolled back; during the sale at most 27 of 40 connections were in use. To be done: "
            "events through an outbox table, locks in a fixed order, a limit for idle transactions, and ids for events "
            "of the warehouse export. Found on the way and not a cause: the stock listing lacks an index."
        ),
    )
    return {"system": SYSTEM, "timezone": "Europe/Berlin", "tools": TOOLS, "turns": telling.turns}
