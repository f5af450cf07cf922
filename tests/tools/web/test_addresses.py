"""Hostile spellings: none of them reaches this machine or its network, each is refused with a reason."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamella.core.errors import ConfigurationError, ToolFailed
from lamella.tools.addresses import AddressPolicy, allowances, refusal
from lamella.tools.open_url import Fetcher

from .sites import Names

NAMES = Names(
    {
        "localtest.me": [["127.0.0.1"]],
        "metadata.google.internal": [["169.254.169.254"]],
        "two-faced.example": [["93.184.216.34", "10.0.0.1"]],
        "mapped.example": [["::ffff:127.0.0.1"]],
        "zone.example": [["fe80::1%eth0"]],
        "localhost": [["127.0.0.1", "::1"]],
        "127.0.0.1.nip.example": [["127.0.0.1"]],
        "nowhere.example": [[]],
    }
)

HOSTILE = [
    ("http://127.0.0.1/", "of this very machine"),
    ("http://127.1/", "unusual spelling"),
    ("http://2130706433/", "unusual spelling"),
    ("http://0x7f000001/", "unusual spelling"),
    ("http://0x7f.0.0.1/", "unusual spelling"),
    ("http://017700000001/", "unusual spelling"),
    ("http://0177.0.0.1/", "unusual spelling"),
    ("http://127.0.0.1./", "of this very machine"),
    ("http://１２７.0.0.1/", "of this very machine"),
    ("http://127。0。0。1/", "of this very machine"),
    ("http://①②⑦.⓪.⓪.①/", "of this very machine"),
    ("http://0/", "unusual spelling"),
    ("http://0.0.0.0/", "unspecified"),
    ("http://[::]/", "unspecified"),
    ("http://[::1]/", "of this very machine"),
    ("http://[0:0:0:0:0:0:0:1]/", "of this very machine"),
    ("http://[::ffff:127.0.0.1]/", "inside IPv6"),
    ("http://[::ffff:7f00:1]/", "inside IPv6"),
    ("http://[::127.0.0.1]/", "inside IPv6"),
    ("http://[64:ff9b::7f00:1]/", "NAT64"),
    ("http://[2002:7f00:1::]/", "6to4"),
    ("http://[2001:0:7f00:1::]/", "Teredo"),
    ("http://[2a00:1450::5efe:7f00:1]/", "ISATAP"),
    ("http://[fe80::1%25eth0]/", "no IPv6 address"),
    ("http://[fe80::1]/", "link-local"),
    ("http://[fc00::1]/", "private"),
    ("http://[fd00:ec2::254]/latest/meta-data/", "metadata"),
    ("http://[ff02::1]/", "multicast"),
    ("http://[1::1]/", "not public"),
    ("http://10.0.0.1/", "private"),
    ("http://172.16.5.4/", "private"),
    ("http://192.168.1.1/", "private"),
    ("http://169.254.169.254/latest/meta-data/", "metadata"),
    ("http://168.63.129.16/", "metadata"),
    ("http://169.254.1.1/", "link-local"),
    ("http://100.64.0.1/", "shared"),
    ("http://100.100.100.200/", "metadata"),
    ("http://198.18.0.1/", "reserved"),
    ("http://224.0.0.1/", "multicast"),
    ("http://255.255.255.255/", "broadcast"),
    ("http://240.0.0.1/", "reserved"),
    ("http://localhost/", "of this very machine"),
    ("http://LOCALHOST./", "of this very machine"),
    ("http://localtest.me/", "of this very machine"),
    ("http://127.0.0.1.nip.example/", "of this very machine"),
    ("http://metadata.google.internal/", "metadata"),
    ("http://two-faced.example/", "private"),
    ("http://mapped.example/", "inside IPv6"),
    ("http://zone.example/", "link-local"),
    ("http://nowhere.example/", "no address"),
    ("http://unknown.example/", "no host"),
    ("http://example.org@127.0.0.1/", "user name"),
    ("http://user:secret@example.org/", "user name"),
    ("http://@127.0.0.1/", "user name"),
    ("http://example.org\\@127.0.0.1/", "backslash"),
    ("http://127.0.0.1\t.example.org/", "control character"),
    ("http://example.org\r\nHost: 127.0.0.1/", "control character"),
    ("http://127.0.0.1%00.example.org/", "no host name"),
    ("http://127.0.0.1%2eexample.org/", "no host name"),
    ("http://127.0.0.1:80:80/", "no URL"),
    ("http://example.org:22/", "Port 22"),
    ("http://example.org:6379/", "Port 6379"),
    ("http://example.org:0/", "Port 0"),
    ("http://example.org:99999/", "no URL"),
    ("http:///127.0.0.1/", "no host name"),
    ("http:127.0.0.1", "no URL"),
    ("//127.0.0.1/", "Only http and https"),
    ("file:///etc/passwd", "Only http and https"),
    ("gopher://127.0.0.1:6379/_INFO", "Only http and https"),
    ("ftp://example.org/", "Only http and https"),
    ("data:text/html,hello", "Only http and https"),
    ("javascript:alert(1)", "Only http and https"),
    ("jar:http://127.0.0.1!/", "Only http and https"),
    ("http://[::1/", "no URL"),
    ("http://" + "a" * 3_000, "characters"),
    ("http://exa mple.org/", "blank"),
    ("", "Only http and https"),
]


@pytest.mark.parametrize(("url", "reason"), HOSTILE)
def test_hostile_spellings_are_refused_with_a_reason(url: str, reason: str) -> None:
    with pytest.raises(ToolFailed) as refused:
        asyncio.run(Fetcher(AddressPolicy(), resolver=NAMES).fetch(url))
    assert reason in f"{refused.value}"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://Example.ORG", "https://example.org/"),
        ("http://example.org:80/a?b=c#d", "http://example.org/a?b=c"),
        ("https://bücher.example/ä?q=ö", "https://xn--bcher-kva.example/%C3%A4?q=%C3%B6"),
        ("http://93.184.216.34/", "http://93.184.216.34/"),
        ("https://[2a00:1450:4001:81b::200e]/x", "https://[2a00:1450:4001:81b::200e]/x"),
        ("https://example.org:80/", "https://example.org:80/"),
        ("https://en.wikipedia.org/wiki/C%2B%2B_(language)", "https://en.wikipedia.org/wiki/C%2B%2B_(language)"),
    ],
)
def test_what_is_public_is_read_in_one_spelling(url: str, place: str) -> None:
    assert AddressPolicy().place(url).url == place
    assert AddressPolicy().place(place).url == place


@given(st.text(max_size=60) | st.text("htp:/[]@.0123456789abxf%\\?#", max_size=60).map(lambda rest: f"http://{rest}"))
def test_every_text_is_a_place_or_refused(url: str) -> None:
    try:
        place = AddressPolicy().place(url)
    except ToolFailed:
        return
    assert place.port in (80, 443)
    assert AddressPolicy().place(place.url) == place


@given(st.ip_addresses(v=4))
def test_no_ipv4_address_that_is_not_global_passes(address: IPv4Address) -> None:
    if not address.is_global or address.is_multicast:
        assert refusal(address)


@given(st.ip_addresses(v=6))
def test_no_ipv6_address_that_is_not_global_passes(address: IPv6Address) -> None:
    if not address.is_global or address.is_multicast or address.ipv4_mapped or address.sixtofour or address.teredo:
        assert refusal(address)


def test_an_allowance_opens_what_it_names_and_nothing_else() -> None:
    policy = AddressPolicy(allowances("10.1.2.0/24, 127.0.0.1:8080, [::1]:8081, fd00::/8"))
    for url, address in (
        ("http://10.1.2.3/", "10.1.2.3"),
        ("http://127.0.0.1:8080/", "127.0.0.1"),
        ("http://[::1]:8081/", "::1"),
        ("http://[fd12::1]/", "fd12::1"),
    ):
        assert policy.addresses(policy.place(url), [address]) == (address,)
    for url, address in (
        ("http://10.1.3.3/", "10.1.3.3"),
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://127.0.0.1:8081/", "127.0.0.1"),
        ("http://10.1.2.3:8080/", "10.1.2.3"),
        ("http://public.example:8080/", "93.184.216.34"),
    ):
        with pytest.raises(ToolFailed, match="not opened"):
            policy.addresses(policy.place(url), [address])


@pytest.mark.parametrize("text", ["example.org", "10.1.2.3/33", "10.1.2.3:0", "10.1.2.3/24", "::1:x", "[::1]:99999"])
def test_an_allowance_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="no address or network"):
        allowances(text)
