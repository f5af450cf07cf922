"""Long values of rows, deflated: JSON of requests, prompts, blocks of bodies.

The values of a database are alike, so they are deflated with a dictionary of what is in many of them: 1,000 bytes of a
request become 250. A packed value begins with the byte 2, or 1 for the dictionary of earlier versions. Any other is as
it is: short ones, and those that were stored before. So a text that itself begins with such a byte is always packed.

`packed_texts.txt` has the prompts and tools that ship: 1,600 bytes of the system prompt become 30. What another
deployment says there is deflated as any text.
"""

from __future__ import annotations

import zlib
from importlib.resources import files

LEAST = 32
"""Bytes of a value that is worth the work."""

_DICTIONARY = (
    b"You are a careful and capable assistant. If the user asks for that, answer in the language"
    b' of the message.\\n- {"system_prompt":"","agent":null,"project":null,"tools":[{"name":"","d'
    b'escription":"","parameters":"{\\"type\\":\\"object\\",\\"properties\\":{\\"query\\":{\\"type\\":\\"st'
    b'ring\\",\\"description\\":\\"\\"},\\"limit\\":{\\"type\\":\\"integer\\"}},\\"required\\":[\\"query\\"],\\"'
    b'additionalProperties\\":false}"},{"name":"","description":"","input_schema":{"type":"object'
    b'","properties":{"query":{"type":"string","description":""},"file_id":{"type":"string"}},"r'
    b'equired":["query"],"additionalProperties":false}}{"type":"function","function":{"name":"",'
    b'"parameters":{}}}{"role":"user","content":[{"type":"tool_result","tool_use_id":"","content'
    b'":""},{"type":"tool_use","id":"","input":{}},{"type":"thinking","thinking":"","signature":'
    b'""},{"type":"text","text":"[["agent","no agent is chosen"],["project","the conversation be'
    b'longs to no project"],["summary","there is no summary of an earlier session"],["files","no'
    b' file came with a message"],["tools","there are no tools"],["dynamic","no dynamic context '
    b'came with this message"],["reminder","no reminder is due in this step, or it is in the win'
    b'dow already"]]{"model":"","max_tokens":16000,"stream":true,"thinking":{"type":"adaptive"},'
    b'"reasoning":{"effort":"medium"}}[["fixed",2],["history",12],["turn",1],["step",1],["tail",'
    b'1]][{"index":4,"ttl":"5m","why":"the end of what never changes"},{"index":17,"ttl":"1h","w'
    b'hy":"the last block before anything that moves"}][{"id":"system","kind":"system","lifetime'
    b'":"fixed","source":"system_prompt","owner":"user","label":"System prompt","letters":"S","t'
    b'okens":0,"blocks":[]},{"id":"tools","kind":"tools","lifetime":"fixed","source":"tools","ow'
    b'ner":"program","label":"Tools","letters":"","tokens":0,"blocks":[""},{"id":"turn_01/user",'
    b'"kind":"user","lifetime":"session","source":"msg_01","owner":"user","label":"Question 1","'
    b'letters":"U1","tokens":38,"blocks":["[{"id":"step_01","kind":"step","lifetime":"session","'
    b'source":"step_01","owner":"model:claude","label":"Answer 1","letters":"A1","tokens":50,"bl'
    b'ocks":["'
)
"""What is most frequent stands last."""

_DICTIONARIES = {
    b"\1": _DICTIONARY,
    b"\2": files("lamella.storage").joinpath("packed_texts.txt").read_bytes() + _DICTIONARY,
}
"""Never changed: what was packed with one can't be read without."""

EARLIER, NEWEST = _DICTIONARIES


def packed(plain: bytes, form: bytes = NEWEST) -> bytes:
    """A value as it is stored."""
    is_like_one = plain[:1] in _DICTIONARIES
    if len(plain) < LEAST and not is_like_one:
        return plain
    deflating = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=_DICTIONARIES[form])
    short = form + deflating.compress(plain) + deflating.flush()
    return short if len(short) < len(plain) or is_like_one else plain


def unpacked(stored: bytes | str) -> bytes:
    """The value of a stored one. Raises `ValueError` if it can't be read.

    A text, which SQLite keeps in a column of bytes if another program wrote it there, is its bytes.
    """
    if isinstance(stored, str):
        return stored.encode()
    dictionary = _DICTIONARIES.get(stored[:1])
    if dictionary is None:
        return stored
    inflating = zlib.decompressobj(-zlib.MAX_WBITS, zdict=dictionary)
    try:
        plain = inflating.decompress(stored[1:]) + inflating.flush()
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not inflating.eof:
        raise ValueError("the end is missing")
    return plain
