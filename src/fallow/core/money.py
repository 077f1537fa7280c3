"""Parse prices: `2.50`, `2.50/h`, `$2.50/h`, `2,50 EUR/h`, and `H100=2.50/h` for some GPUs only."""

import re
from collections.abc import Iterable

from fallow.core.errors import WrongUsage
from fallow.core.interval import Card
from fallow.core.unknown import Unknown
from fallow.core.value import value

_CURRENCY = r"[^\s\d.,/=+-]{1,4}"
_PRICE = rf"({_CURRENCY})?\s*(\d{{1,9}}(?:[.,]\d{{1,6}})?)\s*({_CURRENCY})?\s*(?:/\s*h)?"


@value
class Prices:
    """What an hour of a GPU costs: one price for all, or one by name or UUID."""

    default: float | None = None
    named: tuple[tuple[str, float], ...] = ()
    currency: str = ""

    @property
    def given(self) -> bool:
        """Return whether there is any price."""
        return self.default is not None or bool(self.named)

    def of(self, card: Card) -> float | Unknown:
        """Return the price of an hour of this GPU. A UUID goes before a name, a longer name before a shorter one."""
        for word, price in sorted(self.named, key=lambda pair: -len(pair[0])):
            if card.uuid.lower().startswith(word.lower()):
                return price
        for word, price in sorted(self.named, key=lambda pair: -len(pair[0])):
            if word.lower() in card.name.lower():
                return price
        return Unknown(f"GPU {card.label} ({card.name}) has no price") if self.default is None else self.default

    def in_words(self, amount: float) -> str:
        """Return an amount of money, with its currency if there is one."""
        text = f"{amount:,.2f}"
        if not self.currency:
            return text
        return f"{text} {self.currency}" if self.currency.isalpha() else f"{self.currency}{text}"


def prices_from(texts: Iterable[str]) -> Prices:
    """Return the prices that people gave, each alone or with the name or UUID of its GPUs."""
    default: float | None = None
    named: dict[str, float] = {}
    currencies: set[str] = set()
    for text in texts:
        word, equals, price = text.rpartition("=")
        amount, currency = parse_price(price, text)
        if equals and not word.strip():
            raise WrongUsage(f"{text!r} names no card; write it as H100=2.50/h")
        if currency:
            currencies.add(currency)
        if equals:
            named[word.strip()] = amount
        else:
            default = amount
    if len(currencies) > 1:
        raise WrongUsage(f"prices in {' and '.join(sorted(currencies))} cannot be added up; use one currency")
    return Prices(default, tuple(named.items()), "".join(currencies))


def parse_price(price: str, text: str, ways: str = "2.50, 2.50/h, $2.50/h or H100=2.50/h") -> tuple[float, str]:
    """Return the price of an hour and its currency, empty where none is written; `text` is what a person gave."""
    match = re.fullmatch(_PRICE, price.strip())
    if match is None or (match[1] and match[3]) or not match[2].isascii():
        raise WrongUsage(f"{text[:40]!r} is not a price", f"write it as {ways}")
    return float(match[2].replace(",", ".")), match[1] or match[3] or ""
