# SPDX-License-Identifier: Apache-2.0
"""Functions of vectors as LLVM's text, written down as Python's arithmetic runs over `Value`s.

TIR has no way to name a float that is used twice: LLVM 22 rejects the debug information that TVM
gives each let-bound one, and an expression written out for each of its uses grows exponentially. In
LLVM's text each value has a name. Test: compile/test_vector_math.py
"""

from __future__ import annotations

import struct
from collections.abc import Callable

_FLOATS = {32: "float", 64: "double"}


class Value:
    """A vector of floats, integers or truth values; operators add a line to its function.

    A Python number beside it stands for all lanes. Comparisons and shifts of integers are signed,
    those of floats false where either is NaN.
    """

    def __init__(self, lines: list[str], lanes: int, kind: str, bits: int, text: str) -> None:
        self._lines, self._lanes, self._text = lines, lanes, text
        self._kind, self._bits = kind, bits

    def __add__(self, other: Value | float) -> Value:
        return self._arithmetic("add", self, other)

    def __sub__(self, other: Value | float) -> Value:
        return self._arithmetic("sub", self, other)

    def __rsub__(self, other: float) -> Value:
        return self._arithmetic("sub", self._constant(other), self)

    def __mul__(self, other: Value | float) -> Value:
        return self._arithmetic("mul", self, other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._arithmetic("div", self, other)

    def __rtruediv__(self, other: float) -> Value:
        return self._arithmetic("div", self._constant(other), self)

    def __and__(self, other: Value | int) -> Value:
        return self._new("and", self._of(other))

    def __or__(self, other: Value | int) -> Value:
        return self._new("or", self._of(other))

    def __xor__(self, other: Value | int) -> Value:
        return self._new("xor", self._of(other))

    def __lshift__(self, other: int) -> Value:
        return self._new("shl", self._of(other))

    def __rshift__(self, other: int) -> Value:
        return self._new("ashr", self._of(other))

    def __lt__(self, other: Value | float) -> Value:
        return self._compare("olt" if self._kind == "f" else "slt", other)

    def __gt__(self, other: Value | float) -> Value:
        return self._compare("ogt" if self._kind == "f" else "sgt", other)

    def equals(self, other: Value | float) -> Value:
        return self._compare("oeq" if self._kind == "f" else "eq", other)

    def above(self, other: int) -> Value:
        """Of integers: is it greater, both without sign?"""
        return self._compare("ugt", other)

    def choose(self, yes: Value | float, no: Value | float) -> Value:
        """Of truth values: the lanes of `yes` where this is true, else those of `no`; one of them
        is a Value."""
        like = yes if isinstance(yes, Value) else no
        assert isinstance(like, Value)
        one, two = like._of(yes), like._of(no)
        return like._named(f"select {self._typed()}, {one._typed()}, {two._typed()}")

    def as_bits(self) -> Value:
        """The integers that hold these floats."""
        return self._convert("bitcast", "i", self._bits)

    def as_floats(self) -> Value:
        """The floats that these integers hold."""
        return self._convert("bitcast", "f", self._bits)

    def widened(self) -> Value:
        """float32 as float64."""
        return self._convert("fpext", "f", 64)

    def narrowed(self) -> Value:
        """float64 rounded to float32."""
        return self._convert("fptrunc", "f", 32)

    def is_nan(self) -> Value:
        """By its bits: TVM tells LLVM's code generator that no float is a NaN."""
        return (self.as_bits() & 0x7FFFFFFF).above(0x7F800000)

    def _arithmetic(self, name: str, one: Value, two: Value | float) -> Value:
        return one._new(f"{'f' if self._kind == 'f' else ''}{name}", one._of(two))

    def _compare(self, how: str, other: Value | float) -> Value:
        two = self._of(other)
        text = f"{'fcmp' if self._kind == 'f' else 'icmp'} {how} {self._typed()}, {two._text}"
        return self._named(text, "i", 1)

    def _convert(self, how: str, kind: str, bits: int) -> Value:
        return self._named(f"{how} {self._typed()} to {_type(self._lanes, kind, bits)}", kind, bits)

    def _new(self, name: str, other: Value) -> Value:
        return self._named(f"{name} {self._typed()}, {other._text}")

    def _named(self, text: str, kind: str = "", bits: int = 0) -> Value:
        name = f"%v{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        return Value(self._lines, self._lanes, kind or self._kind, bits or self._bits, name)

    def _of(self, other: Value | float) -> Value:
        return other if isinstance(other, Value) else self._constant(other)

    def _constant(self, number: float) -> Value:
        """A number in all lanes, of this value's type."""
        if self._kind == "i":
            text = str(int(number))
        else:
            if self._bits == 32:
                (number,) = struct.unpack("f", struct.pack("f", number))
            text = f"0x{struct.unpack('Q', struct.pack('d', number))[0]:016X}"  # LLVM's own form
        if self._lanes > 1:
            text = f"splat ({_type(1, self._kind, self._bits)} {text})"
        return Value(self._lines, self._lanes, self._kind, self._bits, text)

    def _typed(self) -> str:
        return f"{_type(self._lanes, self._kind, self._bits)} {self._text}"


def _type(lanes: int, kind: str, bits: int) -> str:
    one = _FLOATS[bits] if kind == "f" else f"i{bits}"
    return one if lanes == 1 else f"<{lanes} x {one}>"


def function_text(name: str, body: Callable[..., Value], arguments: int, lanes: int) -> str:
    """The LLVM function `name` of that many vectors of float32 that computes `body` of them."""
    lines: list[str] = []
    values = [Value(lines, lanes, "f", 32, f"%a{k}") for k in range(arguments)]
    result = body(*values)._typed()
    kind = _type(lanes, "f", 32)
    takes = ", ".join(f"{kind} %a{k}" for k in range(arguments))
    inside = "\n".join(f"  {line}" for line in [*lines, f"ret {result}"])
    # That it reads and writes nothing lets LLVM share equal calls and move them out of loops.
    return f'define {kind} @"{name}"({takes}) memory(none) nounwind willreturn {{\n{inside}\n}}\n'
