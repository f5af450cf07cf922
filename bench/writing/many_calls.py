"""Many parallel calls: a buyer compares twelve suppliers, six turns with up to twelve calls in one step."""

from __future__ import annotations

import json

from writing.parts import Draw, Json, Telling, call, said, tool

SYSTEM = """You help the buyer of a bicycle maker. You can ask the suppliers' portal, the carriers and the quality \
department's records; you place no orders.

When you ask several suppliers, ask all of them at once. Compare like with like: the same quantity, the same terms \
of delivery, prices in euros. Give a table when more than three suppliers are compared, cheapest first, and say \
below it what the table doesn't show. Treat a supplier's own claim about quality as a claim. If a result is missing \
or failed, say so and go on with the others."""

SUPPLIERS = (
    "Alpina Ketten", "Borealis Parts", "Cadore Meccanica", "Dalian Drive", "Estrela Ciclo", "Fjord Components",
    "Gotha Praezision", "Hanwool Precision", "Iberia Rodamientos", "Jizera Works", "Kerava Steel", "Lusatia Technik",
)  # fmt: skip
NOTES = (
    "Price holds for orders within thirty days. Packed in cartons of fifty on pallets of forty cartons.",
    "Includes the surface treatment of grade B; grade A is 8 percent more. Tools are already at hand.",
    "Quantity may differ by two percent. Samples on request, three weeks ahead. Certificates come with each lot.",
    "Discount of 3 percent for a yearly contract with two deliveries. Steel surcharge according to the index of "
    "the month.",
)

TOOLS = [
    tool(
        "get_quote",
        "A supplier's price for a part.",
        supplier="The name.",
        part="The part number.",
        quantity="Pieces.",
    ),
    tool(
        "get_freight",
        "A carrier's price and time from a supplier to the works.",
        supplier="The name.",
        mode="road, rail, sea or air.",
    ),
    tool(
        "quality_record",
        "What the quality department found in a supplier's last lots.",
        kind="search",
        supplier="The name.",
    ),
    tool("stock_level", "What is in stock and on order of a part.", part="The part number."),
]


def quote(turn: int, index: int, part: str, quantity: int) -> Json:
    """One supplier's answer."""
    draw, supplier = Draw(turn * 100 + index), SUPPLIERS[index]
    if (turn, index) == (1, 3):
        failed = call(f"q{turn}_{index}", "get_quote", "", 9_000, supplier=supplier, part=part, quantity=str(quantity))
        return {**failed, "error": "The supplier's portal did not answer within 9 seconds."}
    answer = {
        "supplier": supplier,
        "part": part,
        "quantity": quantity,
        "unit_price": {"amount": f"{3 + draw.below(4)}.{10 + draw.below(89)}", "currency": "EUR"},
        "tooling": {"amount": f"{draw.below(9) * 400}.00", "currency": "EUR"},
        "lead_time_days": 12 + draw.below(60),
        "terms": draw.of(("EXW", "FCA", "DAP", "CIF")),
        "payment": draw.of(("30 days net", "14 days 2 percent, 30 days net", "half in advance")),
        "valid_until": f"2026-05-{10 + draw.below(20)}",
        "note": draw.of(NOTES),
    }
    arguments = {"supplier": supplier, "part": part, "quantity": str(quantity)}
    return call(f"q{turn}_{index}", "get_quote", json.dumps(answer, indent=1), 800 + draw.below(2_000), **arguments)


def freight(turn: int, index: int, mode: str) -> Json:
    """A carrier's answer."""
    draw, supplier = Draw(turn * 1000 + index), SUPPLIERS[index]
    text = (
        f"{supplier} to works Gera by {mode}: {400 + draw.below(1900)} euros a pallet, {2 + draw.below(30)} days "
        f"door to door. Next departure {18 + draw.below(9)} March. Insurance {draw.below(40) + 10} euros. Customs "
        f"{draw.of(('not needed', 'included', 'about two days more'))}. Not stackable above 600 kilograms."
    )
    return call(f"f{turn}_{index}", "get_freight", text, 500 + draw.below(900), supplier=supplier, mode=mode)


def record(turn: int, index: int) -> Json:
    """What is known of a supplier's quality."""
    draw, supplier = Draw(turn * 500 + index), SUPPLIERS[index]
    lots = [
        f"Lot {2400 + draw.below(500)}, {5 + draw.below(8)} months ago: {draw.below(1400)} pieces tested, "
        f"{draw.below(14)} refused, {draw.of(('hardness', 'pitch', 'surface', 'packing', 'marking'))}."
        for _ in range(5)
    ]
    audit = f"Audit {2023 + draw.below(3)}: grade {draw.of('ABBC')}, {draw.below(4)} points open."
    return call(f"r{turn}_{index}", "quality_record", "\n".join([audit, *lots]), 600, supplier=supplier)


def trace() -> Json:
    """Six turns."""
    telling = Telling("2026-03-12T13:20:00+01:00")
    turn, everybody = telling.turn, range(len(SUPPLIERS))
    turn(
        "We need 20,000 chain links KL-118 for the autumn models. Who can supply them and at what price? Ask all "
        "twelve.",
        said("I ask all twelve suppliers at once.", *(quote(1, i, "KL-118", 20_000) for i in everybody)),
        said(
            "Eleven of twelve answered; the portal of Dalian Drive did not. Prices run from about three to seven "
            "euros a "
            "piece, but the terms differ: some deliver to your works, others leave collection and freight to "
            "you, and several "
            "ask for tooling. Before you compare prices, the freight has to be added. Shall I ask the carriers?"
        ),
    )
    turn(
        "Yes, road for the European ones and sea for the others. And try Dalian again.",
        said(
            "I ask for freight from each place, and Dalian Drive for its price once more.",
            *(freight(2, i, "sea" if i in (3, 7) else "road") for i in everybody),
            quote(2, 3, "KL-118", 20_000),
        ),
        said(
            "Dalian Drive answered this time. With freight added the order changes: three suppliers that looked "
            "cheap sell "
            "from their works and are far away. By landed price the best four are Borealis Parts, Gotha "
            "Praezision, Jizera "
            "Works and Kerava Steel. They lie within six percent of each other, so quality and time should decide."
        ),
    )
    turn(
        "What do we know about the quality of those four? And of the others, while you're at it.",
        said("I read the records of all twelve.", *(record(3, i) for i in everybody)),
        said(
            "Of the four, Gotha Praezision and Jizera Works have the fewest refused pieces in their last five "
            "lots, and no "
            "refusal for hardness, which matters most for a link. Kerava Steel had lots refused for packing, "
            "which is an "
            "annoyance and no defect. For Borealis Parts the record is mixed. The audits of two suppliers are "
            "more than two "
            "years old; I would not rely on their grades."
        ),
    )
    turn(
        "How urgent is it? What's in stock?",
        said(
            "I look at the link and at the two parts that go with it.",
            *(
                call(f"s4_{n}", "stock_level", text, 300, part=part)
                for n, (part, text) in enumerate(
                    [
                        ("KL-118", "On hand 3,150. Reserved 2,900. On order 0. Used 410 a week, 1,600 from September."),
                        ("KL-118P", "Pins. On hand 41,000. Reserved 6,000. On order 20,000 for week 19."),
                        ("KL-118R", "Rollers. On hand 18,200. Reserved 5,800. On order 0. Used 820 a week."),
                    ]
                )
            ),
        ),
        said(
            "Fairly urgent. 3,150 links are there and all but 250 are reserved; at 410 a week you run short in about a "
            "week of free stock, and September needs 1,600 a week. Whoever delivers within 30 days avoids a gap. "
            "Rollers "
            "will be next: they last until the summer and nothing is on order."
        ),
    )
    turn(
        "Then split: 5,000 fast and 15,000 cheap. Get quotes for both quantities from the best six.",
        said(
            "I ask six suppliers for both quantities.",
            *(quote(5, i, "KL-118", 5_000) for i in (1, 4, 6, 8, 9, 10)),
            *(quote(6, i, "KL-118", 15_000) for i in (1, 4, 6, 8, 9, 10)),
        ),
        said(
            "For 5,000 pieces Gotha Praezision can deliver soonest, at a price about a tenth above the one for "
            "the large "
            "quantity. For 15,000 Jizera Works is cheapest once freight is added, and has time until August. "
            "Both together "
            "cost about three percent more than everything from one supplier, and you don't depend on either alone."
        ),
    )
    turn(
        "Great. Write me a note for the purchasing meeting, one paragraph.",
        said(
            "For the autumn models 20,000 links KL-118 are needed; the free stock lasts about one week. Twelve "
            "suppliers "
            "were asked, all answered, one at the second try. With freight, the offers of four lie within six "
            "percent of "
            "each other. Proposal: 5,000 pieces from Gotha Praezision for delivery within 30 days, and 15,000 "
            "from Jizera "
            "Works by August; both have the fewest refused pieces of the last five lots. That costs about three "
            "percent "
            "more than a single order. Not yet settled: payment terms with Jizera Works, and an order for "
            "rollers KL-118R."
        ),
    )
    return {"system": SYSTEM, "timezone": "Europe/Berlin", "tools": TOOLS, "turns": telling.turns}
