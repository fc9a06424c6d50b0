"""Which IP addresses a fetch may connect to: those of the public internet, and no other.

On tables of our own: what Python calls global differs between its releases, and multicast counts.
"""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# IANA's special-purpose registry, the ranges that nobody else on the internet answers from.
_REFUSED_V4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network; Linux takes it for loopback
            "10.0.0.0/8",
            "100.64.0.0/10",  # shared by carriers; some clouds keep metadata there
            "127.0.0.0/8",
            "168.63.129.16/32",  # a cloud's own services, at an address that looks public
            "169.254.0.0/16",  # link-local, and the metadata of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments, one cloud's metadata among them
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
# Everything outside of it is loopback, link-local, private, multicast, mapped or unassigned.
_UNICAST_V6 = ipaddress.IPv6Network("2000::/3")
# Inside: ranges that carry an IPv4 address in themselves, and those of no host.
_REFUSED_V6 = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",
            "3fff::/20",
        ),
    )
)


def is_public(address: Address) -> bool:
    """Tell whether an address is a host's on the public internet.

    Addresses that carry an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo) are refused
    whatever they carry, and so is a scoped one.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    return (
        address.scope_id is None
        and address in _UNICAST_V6
        and not any(address in network for network in _REFUSED_V6)
    )
