"""A small corpus with judged queries, written for this: the handbook of an airship company that does not exist."""

from __future__ import annotations

CORPUS: dict[str, str] = {
    "leave": (
        "# Holidays\n\nEverybody has thirty days of paid leave a year. Ask your crew lead two weeks ahead. Days "
        "that are not taken by March lapse."
    ),
    "sickness": (
        "# When you are ill\n\nTell the duty office before eight in the morning. From the third day on we need a "
        "doctor's certificate."
    ),
    "parental": (
        "# Parental leave\n\nParents may stay at home for up to three years after a birth. The first fourteen "
        "months are supported by the state."
    ),
    "expenses": (
        "# Travel expenses\n\nTrain tickets and hotels are reimbursed against receipts. Meals are a flat 28 euros "
        "a day. Hand in the form within a month."
    ),
    "salary": (
        "# Pay\n\nWages are transferred on the last working day. Overtime is paid with a supplement of 25 percent,"
        " at night 40 percent."
    ),
    "pension": (
        "# Retirement\n\nThe company adds half of what you put into the pension fund, up to four percent of your wages."
    ),
    "bicycle": (
        "# Bicycles\n\nYou can lease a bicycle through the company. The rate comes off your gross wages each month."
    ),
    "hydrogen": (
        "# Lifting gas\n\nHydrogen lifts eight percent more than helium but burns. Our ships carry helium; "
        "hydrogen is stored for the fuel cells only."
    ),
    "helium": (
        "# Helium\n\nHelium is bought in tube trailers of 4,200 cubic metres. Purity below 97 percent is sent back"
        " to the supplier."
    ),
    "envelope": (
        "# Envelope\n\nThe hull fabric is three layers: polyester, a gas barrier and a polyurethane coat. Patches "
        "are glued at 20 to 25 degrees."
    ),
    "leak": (
        "# Leak test\n\nSoap solution shows leaks at seams. A loss above one percent of volume in a week grounds "
        "the ship."
    ),
    "mooring": (
        "# Mooring mast\n\nThe mast turns with the wind. Do not moor above 35 knots. Four people hold the nose "
        "line during the approach."
    ),
    "hangar": (
        "# Hangar doors\n\nDoors open in eleven minutes by motor, in forty by hand. Nobody stands on the rails "
        "while they move."
    ),
    "ballast": (
        "# Ballast\n\nWater ballast trims the ship: 1,200 litres forward and aft. Drop it over open fields or "
        "water only."
    ),
    "weather": (
        "# Weather limits\n\nNo flights in thunderstorms, icing or gusts over 28 knots. The captain decides with "
        "the dispatcher."
    ),
    "icing": (
        "# Ice on the hull\n\nIce adds weight on top where nobody sees it. Climb out of cloud or land when "
        "buoyancy drops by 300 kilograms."
    ),
    "engines": (
        "# Propulsion\n\nFour diesel engines of 147 kilowatts turn swivelling propellers. Oil is changed after 250"
        " hours."
    ),
    "fuel": (
        "# Fuelling\n\nFuel with the ship grounded by cable. Diesel tanks hold 1,000 litres; fuel cells are filled"
        " by the supplier only."
    ),
    "radio": (
        "# Radio\n\nThe ground crew listens on 122.85. Say the ship's sign first. In an emergency the frequency is"
        " 121.5."
    ),
    "emergency": (
        "# Fire on board\n\nPull the fire handle, cut the engine, discharge the extinguisher, tell the tower. "
        "Passengers stay seated until the ship is on the ground."
    ),
    "evacuation": (
        "# Leaving the ship\n\nTwo people leave, two enter, so that the weight stays: an empty gondola rises. Only"
        " on the captain's word do all leave at once."
    ),
    "passengers": (
        "# Passengers\n\nTwelve seats. Weigh everybody with their bags. Children under two ride on a lap with an "
        "extra belt."
    ),
    "tickets": (
        "# Bookings\n\nTickets can be moved once without a fee up to 48 hours before departure. For bad weather we"
        " refund everything."
    ),
    "complaints": (
        "# Complaints\n\nAnswer within five working days. The service team may offer a voucher of up to 100 euros "
        "without asking."
    ),
    "privacy": (
        "# Personal data\n\nPassenger lists are deleted after ninety days. Photos of guests need their written consent."
    ),
    "passwords": (
        "# Passwords\n\nUse at least fourteen characters and the password manager. Never send credentials by mail."
    ),
    "laptop": (
        "# Lost devices\n\nReport a stolen laptop or phone to the help desk at once; it is wiped remotely within "
        "the hour."
    ),
    "visitors": "# Visitors\n\nGuests sign in at the gate, wear a badge and are accompanied in the hangar.",
    "training": (
        "# Pilot training\n\nForty hours in the simulator and sixty on the ship, half of them with an instructor. "
        "The licence is renewed every two years."
    ),
    "medical": (
        "# Medical fitness\n\nCrew have an examination every twelve months, over sixty every six. Glasses are "
        "fine, colour blindness is not."
    ),
    "canteen": (
        "# Canteen\n\nOpen from half past eleven to two. There is always one dish without meat. Pay with your badge."
    ),
    "maintenance": (
        "# Annual inspection\n\nOnce a year the ship is deflated, every seam is looked at and cables are replaced."
        " It takes five weeks."
    ),
    "cables": (
        "# Control cables\n\nSteel cables to the rudders are checked for broken strands before each flight. Three "
        "broken strands and the cable is replaced."
    ),
    "insurance": (
        "# Insurance\n\nThe ship is insured for 15 million euros. Damage to others is covered up to 80 million."
    ),
}
"""Documents by name."""

QUERIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("How many days of paid leave do I have?", ("leave",)),
    ("do unused holidays lapse", ("leave",)),
    ("doctor's certificate after which day", ("sickness",)),
    ("staying at home after a birth", ("parental",)),
    ("meal allowance per day when travelling", ("expenses",)),
    ("night overtime supplement", ("salary",)),
    ("when are wages paid", ("salary",)),
    ("company share of the pension fund", ("pension",)),
    ("leasing a bycicle", ("bicycle",)),
    ("why not hydrogen for lifting", ("hydrogen", "helium")),
    ("purity of delivered helum", ("helium",)),
    ("gluing patches on the hull fabric", ("envelope",)),
    ("finding leaks at seams", ("leak", "maintenance")),
    ("wind limit for mooring", ("mooring",)),
    ("opening hangar doors by hand", ("hangar",)),
    ("where may water balast be dropped", ("ballast",)),
    ("gusts and thunderstorms", ("weather",)),
    ("ice and lost buoyancy", ("icing",)),
    ("oil change intervall of the engines", ("engines",)),
    ("size of the diesel tanks", ("fuel", "engines")),
    ("emergency frequency", ("radio",)),
    ("what to do in a fire", ("emergency",)),
    ("why passengers leave the gondola two by two", ("evacuation",)),
    ("children on a lap", ("passengers",)),
    ("refund for bad weather", ("tickets",)),
    ("voucher for a complaint", ("complaints",)),
    ("how long are passenger lists kept", ("privacy",)),
    ("sending credentials by mail", ("passwords",)),
    ("my laptop was stollen", ("laptop",)),
    ("guests in the hangar", ("visitors",)),
    ("hours with an instructer", ("training",)),
    ("colour blindness of crew", ("medical",)),
    ("dish without meat", ("canteen",)),
    ("how long does the anual inspection take", ("maintenance",)),
    ("broken strands of cables", ("cables", "maintenance")),
    ("damage to others covered", ("insurance",)),
    ("Hulle flicken kleben bei 20 Grad patches", ("envelope",)),
    ("reimbursment of hotels", ("expenses",)),
    ("exmination over sixty", ("medical",)),
    ("licence renewal", ("training",)),
)
"""What is asked, and the documents that answer it."""
