"""Bulk text of a web shop's operations: log lines, metrics, releases and code, the same in every run."""

from __future__ import annotations

from writing.parts import Draw

SERVICES = ("checkout", "basket", "payment", "stock", "search", "mail")
PATHS = ("/basket", "/checkout/address", "/checkout/pay", "/product/4711", "/product/0815", "/search?q=lamp", "/login")
CAUSES = (
    "timeout after 3000 ms waiting for a connection from pool stock-db (active 40, idle 0, waiting {n})",
    "upstream stock answered 503 after {n} ms",
    "retry 2 of 3 for POST /reserve, order 88{n}",
    "circuit breaker for stock is open, {n} calls rejected",
)
AUTHORS = ("m.okafor", "j.lindqvist", "s.abe", "r.haddad", "t.novak")
CHANGES = (
    "raise the page size of the stock listing",
    "log the order number with every reservation",
    "move mail templates to the new renderer",
    "read product pictures from the new bucket",
    "reserve every position of an order in one transaction",
    "drop the old voucher table",
)


def log_lines(seed: int, service: str, minute: int, count: int, level: str = "") -> str:
    """Lines of a service's log from a minute after nine on."""
    draw, lines = Draw(seed), []
    for index in range(count):
        second = index * 60 // count
        kind = level or ("ERROR" if draw.below(3) == 0 else "WARN" if draw.below(2) else "INFO")
        text = (
            f"GET {draw.of(PATHS)} 200 in {20 + draw.below(180)} ms"
            if kind == "INFO"
            else draw.of(CAUSES).format(n=draw.below(900) + 10)
        )
        trace = f"{draw.below(16**6):06x}{draw.below(16**6):06x}"
        lines.append(
            f"2026-03-11T09:{minute:02d}:{second:02d}.{draw.below(1000):03d}Z {kind:5} {service}-{draw.below(4)} "
            f"trace={trace} {text}"
        )
    return "\n".join(lines)


def metric(seed: int, name: str, unit: str, base: int, peak: int, minutes: int = 30) -> str:
    """One value for each minute, rising to a peak two thirds of the way and falling again."""
    draw, rows = Draw(seed), [f"# {name} in {unit}, mean of each minute"]
    for minute in range(minutes):
        near = max(0.0, 1 - abs(minute - minutes * 2 / 3) / (minutes / 4))
        value = base + (peak - base) * near + draw.below(max(base // 8, 2))
        rows.append(f"09:{minute:02d} {value:.0f}")
    return "\n".join(rows)


def releases(seed: int, count: int) -> str:
    """What was released last, newest first."""
    draw = Draw(seed)
    rows = [
        f"{2418 - index}  2026-03-{11 - index // 3:02d} {16 - index % 3 * 4:02d}:{draw.below(60):02d}  "
        f"{draw.of(SERVICES):9} {draw.of(AUTHORS):12} {draw.of(CHANGES)}"
        for index in range(count)
    ]
    return "\n".join(rows)


STOCK_SERVICE = '''class StockService:
    """Reserves goods for orders."""

    def __init__(self, pool: Pool, events: Events) -> None:
        self._pool = pool
        self._events = events

    async def reserve(self, order: Order) -> Reservation:
        async with self._pool.acquire() as connection:
            async with connection.transaction():
                held = []
                for position in order.positions:
                    row = await connection.fetchrow(
                        "SELECT free FROM stock WHERE article = $1 FOR UPDATE", position.article
                    )
                    if row is None or row["free"] < position.count:
                        raise OutOfStock(position.article)
                    await connection.execute(
                        "UPDATE stock SET free = free - $2 WHERE article = $1", position.article, position.count
                    )
                    held.append(Held(position.article, position.count))
                    await self._events.publish("stock.reserved", order.id, position.article)
                return Reservation(order.id, tuple(held))

    async def release(self, reservation: Reservation) -> None:
        async with self._pool.acquire() as connection:
            async with connection.transaction():
                for held in reservation.held:
                    await connection.execute(
                        "UPDATE stock SET free = free + $2 WHERE article = $1", held.article, held.count
                    )
                    await self._events.publish("stock.released", reservation.order, held.article)
'''

POOL_SETTINGS = """[stock-db]
host = stock-db-1.internal
port = 5432
database = stock
min_size = 5
max_size = 40
acquire_timeout_ms = 3000
statement_timeout_ms = 30000
idle_in_transaction_session_timeout_ms = 0
application_name = stock
"""

EVENTS_CLIENT = '''class Events:
    """Publishes to the broker and waits until it has the message."""

    def __init__(self, url: str, timeout: float = 10.0) -> None:
        self._url = url
        self._timeout = timeout
        self._channel: Channel | None = None

    async def publish(self, topic: str, *keys: str) -> None:
        channel = await self._opened()
        confirmation = await channel.send(topic, "/".join(keys))
        await asyncio.wait_for(confirmation, self._timeout)

    async def _opened(self) -> Channel:
        if self._channel is None or self._channel.closed:
            self._channel = await connect(self._url)
        return self._channel
'''


def activity(seed: int, count: int) -> str:
    """Sessions of the stock database: who holds a transaction open, waiting for what."""
    draw = Draw(seed)
    rows = ["pid    state                wait_event      xact_age  query"]
    for _ in range(count):
        waits = draw.below(3) == 0
        state, event = ("active", "Lock:tuple") if waits else ("idle in transaction", "Client:ClientRead")
        query = (
            "SELECT free FROM stock WHERE article = $1 FOR UPDATE"
            if waits
            else "UPDATE stock SET free = free - $2 WHERE article = $1"
        )
        rows.append(
            f"{20000 + draw.below(9000):<6} {state:20} {event:15} {draw.below(9)}.{draw.below(10)} s     {query}"
        )
    return "\n".join(rows)


def plan_of(articles: int) -> str:
    """What the database says of the listing query."""
    return f"""Limit  (cost=0.42..812.10 rows=50 width=96) (actual time=0.061..38.420 rows=50 loops=1)
  ->  Index Scan using stock_changed on stock  (cost=0.42..{articles * 2}.00 rows={articles} width=96)
        Filter: (warehouse = 'north'::text)
        Rows Removed by Filter: {articles // 3}
Planning Time: 0.212 ms
Execution Time: 38.611 ms"""
