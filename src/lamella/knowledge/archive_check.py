"""Refuses zip files that unpack to more than they may, before any document reader opens them."""

from __future__ import annotations

import zlib
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from lamella.knowledge.extraction_job import ExtractionLimits, Unreadable, damaged

_ENCRYPTED_FLAG = 0x1
_LOCAL_HEADER_SIZE = 30
_PIECE = 64 * 1024
_BOMB = "The file unpacks to far more than its size, so it was not opened. Save it again, or as PDF, and upload that."


def check_archive(data: bytes, limits: ExtractionLimits) -> None:
    """Raise `Unreadable` unless all members together stay within the limits and each is as large as it declares.

    Readers size their buffers by what a member declares, or read until its data ends: both must be the same, small
    number. Costs one unpacking without keeping it, about 0.3 GB/s.
    """
    try:
        with ZipFile(BytesIO(data)) as archive:
            members = archive.infolist()
    except (BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise damaged() from error
    _check_declarations(members, len(data), limits)
    for member in members:
        unpacked = _unpacked_size(data, member)
        if unpacked > member.file_size:
            raise Unreadable("archive_bomb", _BOMB)
        if unpacked < member.file_size:
            raise damaged()


def _check_declarations(members: list[ZipInfo], packed: int, limits: ExtractionLimits) -> None:
    if any(member.flag_bits & _ENCRYPTED_FLAG for member in members):
        raise Unreadable("encrypted", "The file is protected with a password. Remove it and upload the file again.")
    if any(member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for member in members):
        raise damaged()
    unpacked = sum(member.file_size for member in members)
    too_dense = unpacked > limits.ratio_free_bytes and unpacked > limits.max_ratio * packed
    if too_dense or unpacked > limits.max_unpacked_bytes or len(members) > limits.max_members:
        raise Unreadable("archive_bomb", _BOMB)


def _unpacked_size(data: bytes, member: ZipInfo) -> int:
    """What the member really unpacks to; stops soon after passing the declared size."""
    start = member.header_offset + _LOCAL_HEADER_SIZE
    if data[member.header_offset : member.header_offset + 4] != b"PK\x03\x04" or start > len(data):
        raise damaged()
    name_size = int.from_bytes(data[start - 4 : start - 2], "little")
    extra_size = int.from_bytes(data[start - 2 : start], "little")
    start += name_size + extra_size
    packed = memoryview(data)[start : start + member.compress_size]
    if len(packed) != member.compress_size:
        raise damaged()
    if member.compress_type == ZIP_STORED:
        return len(packed)
    return _inflated_size(packed, member.file_size)


def _inflated_size(packed: memoryview, declared: int) -> int:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    size = 0
    try:
        for offset in range(0, len(packed), _PIECE):
            piece = bytes(packed[offset : offset + _PIECE])
            while piece and size <= declared:
                size += len(inflater.decompress(piece, 16 * _PIECE))
                piece = inflater.unconsumed_tail
            if inflater.eof or size > declared:
                return size
    except zlib.error as error:
        raise damaged() from error
    return size + len(inflater.flush())
