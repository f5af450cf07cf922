"""Human gaps: a tenant works through a lease in between other things, 13 turns over two days, with minutes to "
"hours between."""

from __future__ import annotations

from writing.parts import Json, Telling, said

SYSTEM = """You help people to understand contracts before they sign them. You explain and compare; you are no \
lawyer and say so once, where it matters. Quote at most one sentence of a clause and explain the rest in your own \
words. Put the number of the document in square brackets behind what rests on it. If a clause is usual, say that it \
is usual; if it is unusual, say what would be usual. End with a question only if the answer would change your \
advice."""

CLAUSES = [
    (
        "Parties and premises",
        "This lease is made between Hafenblick Immobilien, landlord, and the tenant named on the last "
        "page, for the shop of 84 square metres on the ground floor of Fischmarkt 12 with the cellar room number "
        "3 of 19 "
        "square metres. The tenant has seen the premises and takes them as they stand. Areas are approximate; a "
        "difference "
        "of up to five percent gives no right to either party. The yard may be used for deliveries between six "
        "and ten in "
        "the morning. The façade, the roof and the outer walls are not let.",
    ),
    (
        "Use",
        "The premises are let as a workshop and shop for the repair and sale of bicycles. Another use needs the "
        "landlord's consent in writing. The tenant obtains at their own cost every permit that their trade needs, "
        "and bears "
        "the risk that one is refused, unless the refusal rests on the state of the building. Welding and the "
        "storage of more "
        "than twenty litres of inflammable liquids are not permitted. Batteries of electric bicycles are charged "
        "only under "
        "supervision and in a cabinet that meets the fire brigade's leaflet of the year.",
    ),
    (
        "Term",
        "The lease begins on 1 May 2026 and runs for five years. It is extended by three years each time unless one "
        "party gives notice twelve months before it ends. The tenant has an option of a further five years on the "
        "same terms, "
        "to be declared in writing by 30 April 2030. The right to give notice for cause remains. If the premises "
        "are not "
        "handed over by 1 July 2026 the tenant may withdraw; further claims are excluded unless the landlord "
        "acted with "
        "gross negligence.",
    ),
    (
        "Rent",
        "The rent is 1,932 euros a month, that is 23 euros for each square metre of the shop; the cellar is included. "
        "Value added tax is added. The rent follows the consumer price index: when the index has changed by more "
        "than four "
        "percent since the beginning or the last change, the rent changes by the same share from the second month "
        "after one "
        "party has told the other in writing. In addition the rent rises on 1 May 2028 by 1.50 euros for each "
        "square metre. "
        "The rent is due on the third working day of the month.",
    ),
    (
        "Other costs",
        "The tenant bears, in proportion to area, the costs of heating, water, cleaning of common ways, insurance "
        "of the building, property tax, lift, caretaker, management up to five percent of the rent, and the upkeep of "
        "installations used in common. An advance of 310 euros a month is paid. The landlord settles accounts "
        "within twelve "
        "months of the end of the year; later claims are excluded, unless the landlord isn't at fault for the "
        "delay. The tenant "
        "may look at the receipts in the landlord's office.",
    ),
    (
        "Security",
        "The tenant gives security of four months' rent including other costs and tax, as a bank guarantee payable "
        "at first demand or in cash. Cash is not paid interest on. The landlord may use it during the lease for "
        "claims that are "
        "undisputed or decided by a court; the tenant then fills it up within two weeks. It is returned when all "
        "claims are "
        "settled, six months after the premises have been given back at the latest.",
    ),
    (
        "Repairs",
        "The tenant bears small repairs inside the premises up to 500 euros in each case and eight percent of the "
        "yearly rent in a year, whoever caused the damage. The tenant keeps up windows, doors, shutters, the "
        "shop front, "
        "electric and sanitary installations and the heating inside the premises, and has the heating serviced "
        "each year. "
        "Roof and walls are kept up by the landlord. Decorative repairs are done by the tenant every five years in "
        "shop and "
        "workshop, and every eight in the other rooms, as far as wear makes them necessary.",
    ),
    (
        "Alterations",
        "Alterations need the landlord's consent in writing, which may be tied to a further security. On leaving, "
        "the tenant removes what they built in and restores the former state, unless the landlord takes it over "
        "for its "
        "present value. A sign above the shop front of up to two square metres is permitted if the city permits it. "
        "Compressors and lifts for bicycles stand on rubber and are not run between eight in the evening and "
        "seven in the "
        "morning.",
    ),
    (
        "Subletting",
        "Subletting and handing over to third parties, also in part, need consent in writing. If the tenant sells "
        "the business, the landlord agrees to the buyer's entering into the lease unless an important reason in the "
        "buyer's "
        "person speaks against it; the tenant then remains liable for one year. A change of the tenant's legal form "
        "or of more "
        "than half of its shares counts as handing over.",
    ),
    (
        "Competition",
        "The landlord lets no other premises in the house or in Fischmarkt 10 and 14, as far as they belong to "
        "the landlord, to a business whose main purpose is the repair or sale of bicycles. The hire of bicycles to "
        "guests of a "
        "hotel is not such a business. If the landlord breaks this, the tenant may reduce the rent by a quarter "
        "while it lasts; "
        "damages are reserved.",
    ),
    (
        "Insurance and liability",
        "The tenant takes out business liability insurance of at least three million euros and shows "
        "the policy each year. The landlord is liable without fault for defects that were there at the beginning "
        "only if "
        "expressly assured. The tenant may set off only claims that are undisputed or decided by a court, and "
        "reduce the rent "
        "only after telling the landlord a month before; the right to claim back what was overpaid remains.",
    ),
    (
        "End of the lease",
        "At the end the premises are given back clean, empty and with all keys. Whoever stays on without "
        "agreement pays one and a half times the rent for each month begun. Silence does not extend the lease "
        "beyond what is "
        "written under Term. Changes need writing, also of this sentence. If a clause is void, the rest remains. "
        "The court of "
        "the place of the premises is competent.",
    ),
]

LEASE = "Lease of business premises, draft of 2 March 2026\n\n" + "\n\n".join(
    f"§ {number} {title}\n{text}" for number, (title, text) in enumerate(CLAUSES, 1)
)

MORNING = "The user is signed in from the web page.\nOpen documents: Lease Fischmarkt 12 (draft).\nPlan: free."
PHONE = "The user is signed in from a telephone.\nOpen documents: none.\nPlan: free."
PAID = "The user is signed in from the web page.\nOpen documents: Lease Fischmarkt 12 (draft).\nPlan: advice."

TALK = [
    (
        {},
        MORNING,
        "I want to rent a shop for my bike repair business. Here's the draft. What should I worry about?",
        "Four things, in this order. The rent rises twice: with the price index and once more in 2028 by 1.50 euros "
        "a square "
        "metre, § 4 [1]; usual is one or the other. The security of four months including costs and tax is high, "
        "and cash earns "
        "no interest, § 6 [1]. You keep up the whole shop front and the heating, § 7 [1], which is far more than "
        "usual. And you "
        "restore the former state at the end, § 8 [1]. The protection from competition in § 10 is good for you. I'm "
        "no lawyer; "
        "for a lease of five years an hour with one is money well spent.",
    ),
    (
        {"minutes": 2},
        MORNING,
        "How much will it cost me per month in year one, everything included?",
        "1,932 euros rent and 310 euros advance make 2,242 euros, and with 19 percent tax 2,668 euros a month [1]. "
        "Add about 40 "
        "euros for the liability insurance of § 11 and 15 for servicing the heating. If you can deduct value added "
        "tax you get "
        "426 euros of it back each month. The advance may be too low: ask what the last tenant paid in the end.",
    ),
    (
        {"minutes": 7},
        MORNING,
        "And in year three, if inflation is 3 % a year?",
        "The index has then risen by more than four percent by the second year, so the landlord may pass it on. "
        "With three "
        "percent a year the rent is about 2,050 euros after two years, and on 1 May 2028 another 126 euros come on "
        "top, 84 "
        "square metres at 1.50 euros [1]. So about 2,176 euros instead of 1,932, thirteen percent more, before "
        "costs and tax.",
    ),
    (
        {"minutes": 22},
        MORNING,
        'My accountant asks what "payable at first demand" means in § 6.',
        "The bank pays the landlord when the landlord asks, without looking at whether the claim is right; you "
        "would have to get "
        "it back afterwards. For the landlord it is as good as cash. Usual for a small business is a guarantee that "
        "the bank "
        "pays when the claim is undisputed or decided. Ask for that, or for three months in place of four.",
    ),
    (
        {"hours": 1, "minutes": 10},
        PHONE,
        "Quick one: am I allowed to charge e-bike batteries overnight?",
        "No. § 2 allows charging only under supervision and in a fire-safe cabinet [1]. Overnight you aren't there. "
        "If you need "
        "it, ask for “supervision” to include a detector that calls your telephone.",
    ),
    (
        {"minutes": 4},
        PHONE,
        "And welding frames?",
        "Not permitted, § 2 [1]. Brazing isn't named, but a landlord would read it in. If frames are part of your "
        "trade, ask for "
        "a permitted place and times before you sign.",
    ),
    (
        {"hours": 3, "minutes": 20},
        MORNING,
        "Back at the desk. Which clauses would you try to change, in order of importance?",
        "First § 7: take shop front, shutters and the heating out of what you keep up, or cap the yearly sum for "
        "everything. "
        "Second § 4: either the index or the step in 2028. Third § 6: three months, and no payment at first demand. "
        "Fourth § 8: "
        "no restoring of what is in the premises when you take them, with photographs as a schedule. Fifth § 2: "
        "charging with a "
        "detector. Leave § 10 as it is; don't draw attention to it.",
    ),
    (
        {"minutes": 6},
        MORNING,
        "Write me a polite mail to the landlord with the first three.",
        "Dear Mr Hansen,\n\nthank you for the draft. I would like to take the shop and have three requests. In § 7 "
        "I ask that the "
        "shop front, the shutters and the heating remain with you, or that my share of all upkeep is limited to "
        "eight percent of "
        "the yearly rent. In § 4 I ask that the rent follows either the index or the step in 2028, not both. In § 6 "
        "I propose "
        "three months as an ordinary bank guarantee. With these changes I can sign this month.\n\nKind regards",
    ),
    (
        {"minutes": 16},
        MORNING,
        'Is "I can sign this month" smart? Sounds desperate.',
        "Fair point. It tells them you have decided. Write instead: “With these changes the shop would suit us, and "
        "I could give "
        "you an answer within a week.” That sets a pace and keeps the door open on both sides.",
    ),
    (
        {"hours": 16, "minutes": 40},
        PAID,
        "Morning! He agreed to § 6 and the step in 2028 is gone. § 7 he only caps at ten percent. Good deal?",
        "Quite good. Without the step you save 126 euros a month from 2028. Ten percent of the yearly rent is 2,318 "
        "euros, the "
        "most you pay for upkeep in a year; make sure that the cap covers everything in § 7, the shop front and the "
        "heating too, "
        "and not only the small repairs, for which the draft says eight percent already [1]. Let him write “all "
        "costs of upkeep "
        "under this section together”.",
    ),
    (
        {"minutes": 11},
        PAID,
        "He asks for the option to be dropped in exchange for eight percent. Hm.",
        "Don't. The option gives you five more years on the same terms, § 3 [1]; for a workshop that invests in its "
        "fittings it "
        "is worth more than the two percent, which are at most 464 euros a year. Offer something cheaper: that you "
        "declare the "
        "option six months earlier than the draft says.",
    ),
    (
        {"minutes": 48},
        PAID,
        "He took that! Anything I must not forget when signing?",
        "Five things. Every change stands in the contract itself, since § 12 asks for writing [1]. Photographs of "
        "the premises "
        "with date, signed by both. The meters read and noted. The keys counted. And the date of 30 April 2030, or "
        "now half a "
        "year earlier, in your calendar, since the option is lost if you miss it.",
    ),
    (
        {"hours": 2, "minutes": 5},
        PHONE,
        "Signed :) Thanks for everything.",
        "Congratulations, and good business. Put the date of the option into the calendar today.",
    ),
]


def trace() -> Json:
    """13 turns in two days, the lease attached to the first; who asks from where is dynamic context."""
    telling = Telling("2026-03-09T09:40:00+01:00")
    for index, (gap, dynamic, user, answer) in enumerate(TALK):
        telling.wait(**gap)
        more: Json = {"dynamic_context": [dynamic]}
        if index == 0:
            more["files"] = [{"name": "lease.txt", "text": LEASE}]
        telling.turn(user, said(answer), **more)
    return {"system": SYSTEM, "timezone": "Europe/Berlin", "turns": telling.turns}
