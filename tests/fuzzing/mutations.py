"""Ways to spoil a file: bytes, words, and the parts of archives with their checksums put right again."""

import gzip
import io
import re
import struct
import warnings
import zipfile
import zlib

import numpy as np

FORMATS = (
    "csv", "table", "csv.gz", "anchors", "npy", "npz", "npz sparse", "mat", "mat packed", "mat 4", "mtx", "mtx.gz",
    "graphml", "gexf", "gml", "pajek", "json", "excel", "edgelist", "parquet", "mdjeep", "pdb", "cif",
    "checkpoint", "blocks", "blocks parts", "blocks npy", "unnamed",
)  # fmt: skip
WORDS = [
    b"nan", b"inf", b"-inf", b"1e999", b"-1", b"0", b"1e-400", b"99999999999999999999", b"2147483648", b"4294967295",
    b"-9223372036854775808", b"0x10", b"1_000", b"1,5", b"", b" ", b'"', b"'", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf",
    b"<", b"&", b"]]>", b"<script>alert(1)</script>", b"\xd9\xa1", b"=1+1", b"true", b"None", b"1j", b"#", b"%", b"\r",
    b"\n", b"\t", b";", b",", b"|", b"../../etc/passwd", b"a" * 300, b"1" * 5000, b"\x1b[2J", b"\xe2\x80\xae",
]  # fmt: skip
TEXT = (
    "csv",
    "table",
    "anchors",
    "mtx",
    "graphml",
    "gexf",
    "gml",
    "pajek",
    "edgelist",
    "mdjeep",
    "pdb",
    "cif",
    "unnamed",
)
NUMBERS = [0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x0FFFFFFF]
HEADERS = [
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000000), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-4, -4), }",
    "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 8), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (4, 4), }",
    "{'descr': '<c16', 'fortran_order': False, 'shape': (2, 4), }",
    "{'descr': '>f8', 'fortran_order': False, 'shape': (4, 4), }",
    "{'descr': '<f2', 'fortran_order': False, 'shape': (4, 4), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (4, 4), }",
    "{'descr': '<u8', 'fortran_order': False, 'shape': (4, 4), }",
    "{'descr': '<U4', 'fortran_order': False, 'shape': (4, 2), }",
    "{'descr': '|V8', 'fortran_order': False, 'shape': (4, 4), }",
    "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (4, 4), }",
    "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4, 4), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 0), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2, 2, 2), }",
    "{'descr': '|S0', 'fortran_order': False, 'shape': (4, 4), }",
    "__import__('os').system('true')",
    "(" * 200,
    "{'descr': '<f8'}",
]


def spoil(content, kind, others, rng):
    """Return the content spoiled once to three times, by means that suit the kind."""
    for _ in range(int(rng.integers(1, 4))):
        means = [_bytes, _bytes, _words, _splice]
        if "npy" in kind or content[:6] == b"\x93NUMPY":
            means += [_npy_header] * 2
        if content[:4] == b"PK\x03\x04":
            means += [_zip] * 4
        if content[:2] == b"\x1f\x8b":
            means += [_gzip] * 4
        if content[:6] == b"MATLAB":
            means += [_matlab] * 4
        if kind in TEXT:
            means += [_words, _lines, _fields]
        content = means[int(rng.integers(len(means)))](content, others, rng)
    return content


def _place(content, rng):
    return int(rng.integers(len(content) + 1))


def _bytes(content, others, rng):
    """Flip, overwrite, insert, remove, repeat, cut."""
    data, at = bytearray(content), _place(content, rng)
    choice, length = int(rng.integers(8)), int(rng.integers(1, 16))
    if not data:
        return bytes(rng.integers(256, size=length, dtype=np.uint8))
    if choice == 0:
        data[at % len(data)] ^= 1 << int(rng.integers(8))
    elif choice == 1:
        data[at % len(data)] = int(rng.integers(256))
    elif choice == 2:
        data[at:at] = bytes(rng.integers(256, size=length, dtype=np.uint8))
    elif choice == 3:
        del data[at : at + length]
    elif choice == 4:
        data[at:at] = data[at : at + length] * int(rng.integers(1, 50))
    elif choice == 5:
        del data[at:]
    else:  # a number that is at some edge, in either order of bytes
        width, order = [(1, "B"), (2, "H"), (4, "I"), (8, "Q")][int(rng.integers(4))]
        number = NUMBERS[int(rng.integers(len(NUMBERS)))] & (256**width - 1)
        at = at // width * width if choice == 6 else at
        data[at : at + width] = struct.pack("<>"[int(rng.integers(2))] + order, number)
    return bytes(data)


def _words(content, others, rng):
    """Put an odd word in the place of one that is there."""
    found = list(re.finditer(rb"[^\s,;|<>=\"]+", content))
    word = WORDS[int(rng.integers(len(WORDS)))]
    if not found:
        return content + word
    span = found[int(rng.integers(len(found)))]
    return content[: span.start()] + word + content[span.end() :]


def _lines(content, others, rng):
    """Leave a line out, repeat one, exchange two, or put one in."""
    lines = content.split(b"\n")
    one, two = (int(rng.integers(len(lines))) for _ in range(2))
    choice = int(rng.integers(4))
    if choice == 0:
        del lines[one]
    elif choice == 1:
        lines[one:one] = [lines[two]] * int(rng.integers(1, 20))
    elif choice == 2:
        lines[one], lines[two] = lines[two], lines[one]
    else:
        lines.insert(one, b",".join(WORDS[int(k)] for k in rng.integers(len(WORDS), size=3)))
    return b"\n".join(lines)


def _fields(content, others, rng):
    """Exchange two words, or one separator for another everywhere."""
    if rng.integers(2):
        old, new = (b",;\t |"[int(k) : int(k) + 1] for k in rng.integers(5, size=2))
        return content.replace(old, new)
    parts = re.split(rb"([\s,;|<>=\"]+)", content)
    one, two = (2 * int(rng.integers((len(parts) + 1) // 2)) for _ in range(2))
    parts[one], parts[two] = parts[two], parts[one]
    return b"".join(parts)


def _splice(content, others, rng):
    """Begin as one file and end as another."""
    other = others[int(rng.integers(len(others)))]
    return content[: _place(content, rng)] + other[_place(other, rng) :]


def _npy_header(content, others, rng):
    """Let the header say something else."""
    header = HEADERS[int(rng.integers(len(HEADERS)))].encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    length = int.from_bytes(content[8:10], "little") if len(content) > 10 else 0
    version = [b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"][int(rng.integers(4)) if rng.random() < 0.2 else 0]
    size = struct.pack("<H", len(header)) if version == b"\x01\x00" else struct.pack("<I", len(header))
    return b"\x93NUMPY" + version + size + header + content[10 + length :]


def _zip(content, others, rng):
    """Spoil a member, its name or how it is kept, with sums and lengths that are right again."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(member.filename, archive.read(member)) for member in archive.infolist()]
    except Exception:  # already spoiled beyond that
        return _bytes(content, others, rng)
    if not members:
        return content
    at = int(rng.integers(len(members)))
    name, data = members[at]
    choice = int(rng.integers(9))
    if choice <= 2:
        members[at] = name, _bytes(data, others, rng)
    elif choice <= 4:
        members[at] = name, _npy_header(data, others, rng)
    elif choice == 5:
        names = ["../../evil.npy", "/etc/passwd.npy", "C:\\evil.npy", name, "", "a" * 300, "pairs.npy", "\x00.npy"]
        members[at] = names[int(rng.integers(len(names)))], data
    elif choice == 6:
        del members[at]
    elif choice == 7:
        other = int(rng.integers(len(members)))
        members[at], members[other] = (name, members[other][1]), (members[other][0], data)
    else:
        members.append((f"more{at}.npy", data if rng.integers(2) else b"\x00" * 200_000))
    method = [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2][int(rng.integers(3))]
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")  # of two members with one name, which is the point
        for name, data in members:
            with archive.open(zipfile.ZipInfo(name or "x"), "w") as member:
                member.write(data)
    return file.getvalue()


def _gzip(content, others, rng):
    """Spoil what is packed, or pack it once more."""
    try:
        inside = gzip.decompress(content)
    except Exception:
        return _bytes(content, others, rng)
    choice = int(rng.integers(5))
    if choice == 0:
        return gzip.compress(content)
    if choice == 1:
        return gzip.compress(inside) + gzip.compress(_words(inside, others, rng))
    return gzip.compress([_words, _lines, _bytes][choice - 2](inside, others, rng), mtime=0)


def _matlab(content, others, rng):
    """Spoil an element, what it says of its kind, length or shape; unpacked first, and packed again."""
    header, at, elements = content[:128], 128, []
    while at + 8 <= len(content):
        kind, length = struct.unpack("<II", content[at : at + 8])
        body = content[at + 8 : at + 8 + length]
        if kind == 15:
            try:
                body = zlib.decompress(body)
            except zlib.error:
                return _bytes(content, others, rng)
            elements.append((True, bytearray(body)))
        else:
            elements.append((False, bytearray(content[at : at + 8 + length])))
        at += 8 + length
    if not elements:
        return content
    which = int(rng.integers(len(elements)))
    packed, body = elements[which]
    if len(body) >= 8:
        place = int(rng.integers(len(body) // 4)) * 4
        number = NUMBERS[int(rng.integers(len(NUMBERS)))] if rng.integers(2) else int(rng.integers(20))
        body[place : place + 4] = struct.pack("<I", number)
    if rng.random() < 0.1:
        body = body + b"\x00" * 100_000
    elements[which] = packed, body
    parts = [header]
    for packed, body in elements:
        squeezed = zlib.compress(bytes(body))
        parts.append(struct.pack("<II", 15, len(squeezed)) + squeezed if packed else bytes(body))
    return b"".join(parts)
