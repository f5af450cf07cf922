"""Protected documents of the tests, and what may be said about them."""

from __future__ import annotations

from lamella.guard.guard import ProtectedText

LEASE = ProtectedText(
    """# Lease of the northern mill

The tenant pays a yearly rent of 1,234,500 euros on the first day of the month and keeps the roof in good repair
until the lease ends on 31 May 2027. Pets are allowed in the yard, except for geese.

## Handing over the keys

Twenty-five looms stand in the long hall. The contract has the number KX-4471-B; questions go to m.huber@mill.example
or +49 821 5550 142. Whoever hands over late pays 3 % of the rent for each week begun.
""",
    ("Rent agreement Augsburg 2026.pdf",),
)

REPORT = ProtectedText(
    """# Quarterly figures of the weaving company

Margins rose to 12.4 % in Q3 2026 while the order book shrank by 1.2 million dollars. The board decided on 2026-09-14
to close the dye works in Gersthofen before winter and to move eighty people to the spinning floor.
""",
    ("Board paper for the autumn meeting",),
)

CHINESE = ProtectedText("织布厂的租约将于二〇二七年五月三十一日到期，租户必须在离开之前修好屋顶并且交还所有的钥匙。")

SOURCES = (LEASE, REPORT, CHINESE)

HARMLESS = (
    "The documents describe who has to look after the building.",
    "There is a passage on what a tenant owes; please ask the owner of the base for the sum.",
    "Yes, the question of pets is dealt with, and animals are in general permitted outside.",
    "The paper names a person to write to about the contract.",
    "The base holds a rental contract and a paper of the company's leadership.",
    "It covers three topics: obligations, the end of the contract, and what happens on delay.",
    "I can say that profitability improved; by how much I may not say.",
    "The leadership decided to shut one site. Which one is confidential.",
    "Being late has a price that grows with time.",
    "Two of the documents are relevant, one of them directly.",
    "For the date on which it ends, ask somebody with full access.",
    "The material says when payments are due within a month.",
    "Orders went down in the period in question.",
    "There are machines in one of the rooms; their number is given.",
    "Some employees change to another department.",
    "The documents do not say anything about insurance.",
    "Repairs are the business of whoever rents the place, as far as the top of the building is concerned.",
    "I found nothing on parking.",
    "Der Vertrag regelt, wer das Gebäude instand hält. Die Höhe der Miete darf ich nicht nennen.",
    "Le contrat dit qui doit entretenir le bâtiment.",
    "这些文件说明了由谁负责维修。",
    "In short: yes, but with an exception for one kind of animal.",
    "1. Obligations\n2. Costs of a delay\n3. Return of what was handed out",
    "The answer can be found in the first of the two documents, in its second half.",
)
"""Summaries that give no passage, figure, date, name or title away."""
