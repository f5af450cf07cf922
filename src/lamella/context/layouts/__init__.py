"""The layouts that ship, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lamella.context.layout import Layout
from lamella.context.layouts.lamella import LAMELLA
from lamella.context.layouts.lis import LIS
from lamella.context.layouts.onyx import ONYX
from lamella.context.layouts.wegent import WEGENT

LAYOUTS: Mapping[str, Layout] = MappingProxyType({layout.name: layout for layout in (LAMELLA, ONYX, LIS, WEGENT)})
