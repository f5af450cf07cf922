"""Which addresses of the web may be opened: one reading of a URL, and the networks that no page lies in (X-SAFE)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import quote, urljoin, urlsplit

import idna

from lamella.core.errors import ConfigurationError, ToolFailed

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PORTS = {"http": 80, "https": 443}
"""Schemes, and the one port of each."""

MAX_URL = 2_000
"""Characters of a URL."""

_SAFE = "%!$&'()*+,;=:@/?~[]-._"
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029\ufeff]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")

_REFUSED: Sequence[tuple[Network, str]] = [
    (ip_network(network), name)
    for name, networks in (
        ("of this very machine", ("127.0.0.0/8", "::1/128")),
        ("unspecified", ("0.0.0.0/8", "::/128")),
        ("of cloud metadata", ("169.254.169.254/32", "168.63.129.16/32", "100.100.100.200/32", "fd00:ec2::/32")),
        ("link-local", ("169.254.0.0/16", "fe80::/10")),
        ("private", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")),
        ("shared by a provider's customers", ("100.64.0.0/10",)),
        ("for multicast", ("224.0.0.0/4", "ff00::/8")),
        ("for broadcast", ("255.255.255.255/32",)),
        ("an IPv4 address inside IPv6", ("::ffff:0:0/96", "::/96", "::ffff:0:0:0/96")),
        ("an IPv4 address inside IPv6 (NAT64)", ("64:ff9b::/96", "64:ff9b:1::/48")),
        ("an IPv4 address inside IPv6 (6to4)", ("2002::/16", "192.88.99.0/24")),
        ("an IPv4 address inside IPv6 (Teredo)", ("2001::/32",)),
        ("for documentation", ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")),
        ("reserved", ("192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "2001::/23")),
    )
    for network in networks
]
_PUBLIC_V6 = IPv6Network("2000::/3")
_ISATAP = (0x00005EFE, 0x02005EFE)


@dataclass(frozen=True, slots=True)
class WebAddress:
    """The address of a page. `host` is a name in ASCII or an address, `target` path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def url(self) -> str:
        """The address in full."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


@dataclass(frozen=True, slots=True)
class AllowedAddress:
    """Addresses that may be opened although they are not public; `port` None: the default ports."""

    network: Network
    port: int | None = None

    def covers(self, address: Address, port: int) -> bool:
        """Whether it names this address and port."""
        return address in self.network and (self.port == port if self.port else port in PORTS.values())


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """The addresses that may be opened: public ones at default ports, and allowed ones."""

    allowed: tuple[AllowedAddress, ...] = ()

    def place(self, url: str) -> WebAddress:
        """The address in a URL. Raises `ToolFailed` if it may not be opened, before any name is resolved."""
        place = _read(url)
        ports = {*PORTS.values(), *(allowance.port for allowance in self.allowed)}
        if place.port not in ports:
            raise ToolFailed(f"Port {place.port} is not opened: only 80 and 443 are.")
        return place

    def follow(self, place: WebAddress, location: str) -> WebAddress:
        """The address of a redirect. Raises as `place` does."""
        if _FORBIDDEN.search(location):
            raise ToolFailed(f"{place.host} redirects to something that is no address.")
        return self.place(urljoin(place.url, location))

    def addresses(self, place: WebAddress, found: Iterable[str]) -> tuple[str, ...]:
        """The addresses that a host has, all of them; raises `ToolFailed` when one of them may not be opened."""
        addresses = [_address(one) for one in found]
        for address in addresses:
            if any(allowance.covers(address, place.port) for allowance in self.allowed):
                continue
            why = refusal(address)
            if why:
                raise ToolFailed(f"{place.host} is not opened: its address {address} is not public, but {why}.")
            if place.port not in PORTS.values():
                raise ToolFailed(f"{place.host} is not opened at port {place.port}: only 80 and 443 are.")
        if not addresses:
            raise ToolFailed(f"{place.host} has no address.")
        return tuple(dict.fromkeys(map(str, addresses)))


def allowances(text: str) -> tuple[AllowedAddress, ...]:
    """The allowed addresses of a setting: addresses or networks, with or without a port, such as `10.1.2.0/24,
    [::1]:8080`.

    Raises `ConfigurationError`.
    """
    return tuple(_allowance(one.strip()) for one in text.split(",") if one.strip())


def _allowance(text: str) -> AllowedAddress:
    match = re.fullmatch(r"(?:\[([0-9a-f:./]+)\]|([0-9./]+))(?::(\d{1,5}))?|([0-9a-f:./]+)", text.lower())
    try:
        if match is None or (match[3] and not 0 < int(match[3]) < 65_536):
            raise ValueError
        return AllowedAddress(ip_network(match[1] or match[2] or match[4]), int(match[3]) if match[3] else None)
    except ValueError:
        raise ConfigurationError(
            f"“{text}” is no address or network.",
            hint="Write such as 10.1.2.3, 10.1.2.0/24, 10.1.2.3:8080 or [fd00::1]:8080.",
            param="LAMELLA_OPEN_URL_ALLOW",
        ) from None


def refusal(address: Address) -> str:
    """Why an address is not public, or ""."""
    for network, name in _REFUSED:
        if address.version == network.version and address in network:
            return name
    if isinstance(address, IPv6Address):
        if address not in _PUBLIC_V6:
            return "not public"
        if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
            return "an IPv4 address inside IPv6 (ISATAP)"
    return ""


def _address(text: str) -> Address:
    """An address from a resolver. One with a zone is link-local."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        raise ToolFailed(f"{text[:80]} is no address.") from None


def _read(url: str) -> WebAddress:
    if len(url) > MAX_URL:
        raise ToolFailed(f"The URL has {len(url)} characters; {MAX_URL} are the most.")
    if _FORBIDDEN.search(url):
        raise ToolFailed("The URL holds a blank, a control character or a backslash.", hint="Encode it with %.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ToolFailed("This is no URL.", hint="Write it in full, such as https://example.org/page.") from None
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        raise ToolFailed("Only http and https URLs are opened.", hint="Write it in full: https://example.org/page.")
    if "@" in parts.netloc:
        raise ToolFailed("A URL with a user name or a password is not opened.", hint="Leave out the part before the @.")
    target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    if not target.startswith("/"):
        raise ToolFailed("This is no URL.")
    if port == 0:
        raise ToolFailed("Port 0 is not opened: only 80 and 443 are.")
    return WebAddress(scheme, _host(parts.netloc, parts.hostname or ""), port or PORTS[scheme], target)


def _host(netloc: str, name: str) -> str:
    """A host in its canonical spelling."""
    if netloc.startswith("["):
        return _literal(name)
    try:
        host = name.lower() if name.isascii() else idna.encode(name, uts46=True).decode()
    except (idna.IDNAError, UnicodeError):
        raise ToolFailed(f"“{name[:80]}” is no host name.") from None
    host = host.removesuffix(".")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _dotted(host)
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ToolFailed(f"“{name[:80]}” is no host name.")
    return host


def _literal(name: str) -> str:
    try:
        if "%" in name:
            raise ValueError
        return str(IPv6Address(name))
    except ValueError:
        raise ToolFailed(f"[{name[:80]}] is no IPv6 address.") from None


def _dotted(host: str) -> str:
    """An IPv4 address of four decimal numbers; other spellings would disguise it and are refused."""
    try:
        return str(IPv4Address(host))
    except ValueError:
        raise ToolFailed(f"“{host[:80]}” is an IP address in an unusual spelling, which is not opened.") from None
