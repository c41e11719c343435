"""Numbers with a checksum: payment cards (Luhn) and bank accounts (IBAN, ISO 13616)."""

from __future__ import annotations

import re
from typing import Final

_IBAN_CHARS: Final = {
    country: int(length)
    for length, countries in {
        "15": "NO",
        "16": "BE",
        "18": "DK FI FO GL NL",
        "19": "MK SI",
        "20": "AT BA EE KZ LT LU",
        "21": "CH HR LI LV",
        "22": "BG DE GB GE IE ME RS",
        "23": "AE GI IL",
        "24": "AD CZ ES MD PK RO SA SE SK TN",
        "25": "PT",
        "26": "IS TR",
        "27": "FR GR IT MC SM",
        "28": "AL AZ CY DO GT HU LB PL",
        "29": "BR EG PS QA UA",
        "30": "JO KW MU",
        "31": "MT SC",
    }.items()
    for country in countries.split()
}
"""The length of an IBAN in characters, by the code of its country."""


def card_in(text: str) -> str | None:
    """The number of a payment card with which a text begins; `None` where there is none.

    A card's number has 13 to 19 digits, begins like an issuer's and has a valid Luhn checksum. An
    expiry date or a security code may follow in groups of its own; then each group of the number
    must have three digits or more, for otherwise any list of small numbers would be tried.
    """
    if _is_card(text):
        return text
    ends = [cut.start() for cut in _CUT.finditer(text)]
    for end in reversed(ends):
        if _SHORT.search(text[:end]) is None and _is_card(text[:end]):
            return text[:end]
    return None


def _is_card(text: str) -> bool:
    digits = [int(char) for char in text if char.isdigit()]
    is_issued = digits[:1] in _ISSUERS or digits[:2] in _TWENTIES
    if not 13 <= len(digits) <= 19 or not is_issued or len(set(digits)) == 1:
        return False
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_CUT: Final = re.compile(r"[ -]")
_SHORT: Final = re.compile(r"(?<!\d)\d{1,2}(?!\d)")
# Issuers: American Express and others 3, Visa 4, Mastercard 5 and 22 to 27, Discover 6.
_ISSUERS: Final = [[3], [4], [5], [6]]
_TWENTIES: Final = [[2, second] for second in range(2, 8)]


def iban_in(text: str) -> str | None:
    """The IBAN with which a text begins, of the length of its country and with a valid checksum.

    The answer is `None` where there is none.
    """
    wanted = _IBAN_CHARS.get(text[:2])
    if wanted is None:
        return None
    places = [place for place, char in enumerate(text, 1) if not char.isspace()]
    if len(places) < wanted or text[places[wanted - 1] :][:1].strip():
        return None
    iban = text[: places[wanted - 1]]
    plain = "".join(iban.split())
    number = "".join(str(int(char, 36)) for char in plain[4:] + plain[:4])
    return iban if int(number) % 97 == 1 else None
